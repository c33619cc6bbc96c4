/* Prints what each preset of `redact` finds and misses in 10,000 lines with a secret, and finds wrongly in 10,000 that only look like one. */
import { redactPresets } from "#proto/collector-config/processors.ts";
import { searchSecrets } from "#tests/collector/support/secrets.ts";
import { createRandom } from "#tests/fakes/entropy.ts";

const lines = 10_000;
const seed = Number(process.argv[2] ?? 1);

for (const form of redactPresets) {
  const { found, missed, wrong } = searchSecrets(form, lines, createRandom(seed));
  const counts = `${found} found, ${missed.length} missed, ${wrong.length} wrongly found`;
  process.stdout.write(`${form.padEnd(14)}${counts}\n`);
  for (const line of [...missed.slice(0, 3), ...wrong.slice(0, 3)])
    process.stdout.write(`  ${line}\n`);
}
