"""Full fine-tuning of a causal language model on instruction data."""

import argparse

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="meta-llama/Llama-2-7b-hf")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--max-length", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--output-dir", required=True)
    return parser.parse_args()


def build_loader(args, tokenizer):
    dataset = load_dataset("yahma/alpaca-cleaned", split="train")

    def collate(rows):
        texts = [row["instruction"] + "\n" + row["output"] for row in rows]
        return tokenizer(texts, padding="max_length", truncation=True, max_length=args.max_length, return_tensors="pt")

    return DataLoader(dataset, batch_size=args.batch_size, shuffle=True, num_workers=4, collate_fn=collate)


def main():
    args = parse_args()
    device = torch.device("cuda")
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(args.model, torch_dtype=torch.float32, attn_implementation="sdpa")
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loader = build_loader(args, tokenizer)

    model.train()
    for _ in range(args.epochs):
        for batch in loader:
            batch = {key: value.to(device) for key, value in batch.items()}
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(**batch, labels=batch["input_ids"]).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    model.save_pretrained(args.output_dir)


if __name__ == "__main__":
    main()
