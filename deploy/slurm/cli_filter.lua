--[[
Tells who submits a GPU batch job past the gate, before anything is sent: /etc/slurm/cli_filter.lua on the login nodes,
CliFilterPlugins=cli_filter/lua in slurm.conf. It looks for the variable that the wrapper (deploy/slurm/sbatch) sets.

What it is better at than job_submit.lua: it costs the scheduler nothing, and it sees the environment of the submission
itself, so `sbatch --export=NONE` from the wrapper passes.
What it is not: a wall. It runs in the client with the user's rights: another slurm.conf (SLURM_CONF) or another client
goes without it, and whoever sets the variable by hand passes. Use job_submit.lua where the scheduler must refuse.
Why it does not estimate: it is told the options and not the script, whose file the gate would have to read again.
]]

local MARK = "PREFLIGHT_GATE"
local OPTIONS = { "gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "tres-per-task" }
local UNSET = { [""] = true, ["0"] = true, unset = true, ["invalid-context"] = true }

local function asks_for_gpu(options)
   for _, name in ipairs(OPTIONS) do
      local value = options[name]
      local text = value ~= nil and tostring(value) or ""
      if not UNSET[text] then
         local is_list = name == "gres" or name == "tres-per-task"
         if string.find(text, is_list and "gpu" or "%d") then
            return true
         end
      end
   end
   return false
end

function slurm_cli_setup_defaults(options, early_pass)
   return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
   local is_batch = options["type"] == nil or options["type"] == "sbatch"
   local is_inside_a_job = os.getenv("SLURM_JOB_ID") ~= nil
   if not is_batch or is_inside_a_job or os.getenv(MARK) == "passed" or not asks_for_gpu(options) then
      return slurm.SUCCESS
   end
   slurm.log_error("GPU jobs are submitted through `preflight gate` here: use the sbatch that is first on the PATH.")
   return slurm.ERROR
end

function slurm_cli_post_submit(offset, job_id, step_id)
   return slurm.SUCCESS
end

return slurm.SUCCESS
