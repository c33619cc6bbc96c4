/**
 * `bun run bench <name> [-- options]`: measures one goal of performance against a floor measured in the same run. Ends with one
 * JSON object; exit code 0 when the goal is met, 1 when not, 2 for a bench that does not exist.
 */
import { readdirSync } from "node:fs";
import { type Bench, describeMachine } from "./bench.ts";

const own = new Set(["main.ts", "bench.ts", "core.ts", "database.ts", "fleet.ts", "process-usage.ts", "web.ts"]);
const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !own.has(file))
  .map((file) => file.slice(0, -3));

const [name = "", ...args] = process.argv.slice(2).filter((arg) => arg !== "--");
if (names.includes(name)) {
  const { bench }: { bench: Bench } = await import(`./${name}.ts`);
  const result = { ...(await bench(args)), machine: describeMachine() };
  console.log(JSON.stringify(result));
  process.exitCode = result.ok ? 0 : 1;
} else {
  console.error(`usage: bun run bench ${names.join("|")}`);
  process.exitCode = 2;
}
