--[[
Refuses GPU jobs that did not come through the gate: /etc/slurm/job_submit.lua with JobSubmitPlugins=lua in slurm.conf.

What it is: a reminder that no one can forget. It looks for the variable that the wrapper (deploy/slurm/sbatch) sets.
What it is not: a wall. Whoever sets the variable by hand passes, and so does `sbatch --export=NONE` from the wrapper,
which hands over no variable and is therefore refused with a message that says so.

Why it does not estimate: this runs inside slurmctld while it holds its locks. A program started here, or a question to
a server, would stop the scheduler for everybody for as long as it takes.
]]

local GPU_PARTITIONS = nil -- nil: every partition; or a set such as { gpu = true, ["gpu-long"] = true }
local EXEMPT_UIDS = { [0] = true }
local MARK = "PREFLIGHT_GATE"

local function asks_for_gpu(job)
   local fields = { "gres", "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task" }
   for _, name in ipairs(fields) do
      local text = job[name]
      if type(text) == "string" and string.find(text, "gpu", 1, true) then
         return true
      end
   end
   return false
end

local function is_watched(job)
   if GPU_PARTITIONS == nil or job.partition == nil then
      return true
   end
   for name in string.gmatch(job.partition, "[^,]+") do
      if GPU_PARTITIONS[name] then
         return true
      end
   end
   return false
end

function slurm_job_submit(job, partitions, uid)
   -- Interactive jobs (salloc, srun) have no script, and the wrapper is sbatch's.
   if EXEMPT_UIDS[uid] or job.script == nil or job.script == "" then
      return slurm.SUCCESS
   end
   if not asks_for_gpu(job) or not is_watched(job) then
      return slurm.SUCCESS
   end
   local environment = job.environment
   if environment ~= nil and environment[MARK] == "passed" then
      return slurm.SUCCESS
   end
   slurm.log_user("GPU jobs are submitted through `preflight gate` here: use the sbatch of the login node"
      .. " (with --export=NONE add " .. MARK .. " to --export).")
   return slurm.ERROR
end

function slurm_job_modify(job, record, partitions, uid)
   return slurm.SUCCESS
end

return slurm.SUCCESS
