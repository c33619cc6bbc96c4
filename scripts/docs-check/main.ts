/**
 * `bun run docs:check`: checks links, lengths and commands of every Markdown page. Prints the faults, then one JSON object. Exit code 1
 * when there is a fault.
 */
import { checkDocuments } from "./check-documents.ts";

const { faults, ...counts } = checkDocuments();
for (const fault of faults) console.error(fault);
console.log(JSON.stringify({ ...counts, faults: faults.length, ok: faults.length === 0 }));
process.exitCode = faults.length > 0 ? 1 : 0;
