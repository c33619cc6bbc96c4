/**
 * `bun run reliability`: prints the faults and attacks of the tests, each with what must hold and the tests that show it. Arguments name
 * cases (`E1`) or groups (`Enrollment`). Exit code 1 when a case lacks what `caseFaults` asks for, or an argument names none.
 */
import { readReliability, renderCase } from "./cases.ts";

const { cases, faults } = readReliability();
const wanted = process.argv.slice(2).map((argument) => argument.toLowerCase());
const chosen = cases.filter(
  ({ id, group }) =>
    wanted.length === 0 ||
    wanted.some((name) => [id, group].some((word) => word.toLowerCase() === name)),
);
for (const [group, members] of Map.groupBy(chosen, (described) => described.group)) {
  console.log(`\n${group}\n`);
  for (const described of members) console.log(renderCase(described));
}
const covered = chosen.filter(({ gap }) => gap === undefined).length;
console.error(`${chosen.length} cases, ${covered} covered as a whole`);
for (const fault of faults) console.error(fault);
process.exitCode = faults.length > 0 || chosen.length === 0 ? 1 : 0;
