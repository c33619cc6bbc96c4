/**
 * `bun run upgrade-test -- [--from REV] [--seconds 5]`: carries database and queue of a previous revision (the newest tag `v*`, without one
 * the parent of HEAD) to the present one under load. Both cores serve on the new schema for a while; then the previous one stops, and
 * the collector is upgraded with records in its queue. Prints one JSON object; exit code 1 when an acknowledged record was lost or stored
 * twice, or a program of either revision did not serve, and when a migration of the previous revision was edited.
 */
import { parseArgs } from "node:util";
import { changedMigrations } from "../../../scripts/verify/landed-migrations.ts";
import { checkOut, findPrevious } from "./previous.ts";
import { runUpgrade } from "./upgrade.ts";

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: { from: { type: "string" }, seconds: { type: "string", default: "5" } },
});

const upgradeFrom = async () => {
  const { name, commit, note } = await findPrevious(values.from);
  const from = { from: name, commit, note };
  const changed = await changedMigrations(commit);
  if (changed.length > 0)
    return {
      ...from,
      broken: [
        `a database of ${name} cannot be upgraded: ${changed.join(", ")} is not as in that revision. Before the first tag v* the baseline ` +
          "is generated anew (docs/decisions/2026-11-22-one-baseline.md); choose a later revision with --from",
      ],
      ok: false,
    };
  console.error(`previous revision: ${name} (${commit.slice(0, 12)}), ${note}; installing its dependencies`);
  await using previous = await checkOut(commit);
  const progress = (line: string) => console.error(line);
  return { ...from, ...(await runUpgrade(previous, { seconds: Number(values.seconds), progress })) };
};

const result = await upgradeFrom().catch((error: Error) => {
  console.error(error);
  return { broken: [error.message], ok: false };
});
for (const fault of result.broken) console.error(`BROKEN  ${fault}`);
console.log(JSON.stringify(result));
// A timeout of the load is still pending.
process.exit(result.ok ? 0 : 1);
