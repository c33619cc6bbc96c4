/*
 * Stands in for journalctl: prints the entries of `journal` in the folder of `--directory`, from `--cursor` on or where that is gone from the
 * next one on, and goes on with `--follow`. The file `fault` there makes it write that to stderr and end; the file `die` has how many entries
 * it prints before it ends.
 */
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const optionOf = (option: string) =>
  process.argv.find((argument) => argument.startsWith(`--${option}=`))?.slice(option.length + 3);
const dir = optionOf("directory") ?? "";
const file = (name: string) => join(dir, name);
appendFileSync(file("runs"), `${process.argv.slice(2).join(" ")}\n`);
writeFileSync(file("pid"), `${process.pid}`);

if (existsSync(file("fault"))) {
  process.stderr.write(readFileSync(file("fault")));
  process.exit(1);
}

const numberOf = (text: string) => Number.parseInt(/i=([0-9a-f]+)/.exec(text)?.[1] ?? "0", 16);
const entries = () => readFileSync(file("journal"), "latin1").split(/(?<=\n\n)/);
const start = numberOf(optionOf("cursor") ?? "");
let printed = start - 1;
if (optionOf("lines")) printed = numberOf(entries().at(-1) ?? "") - 1;

for (let left = Number.POSITIVE_INFINITY; ; ) {
  for (const entry of entries()) {
    if (!entry.endsWith("\n\n") || numberOf(entry) <= printed) continue;
    if (existsSync(file("die"))) {
      left = Math.min(left, Number(readFileSync(file("die"), "utf8")));
      rmSync(file("die"));
    }
    if (left-- <= 0) process.exit(1);
    if (!process.stdout.write(entry, "latin1"))
      await new Promise((resolve) => process.stdout.once("drain", resolve));
    printed = numberOf(entry);
  }
  if (!process.argv.includes("--follow")) break;
  await delay(5);
}
