/**
 * `bun run demo`: the whole product on loopback, until Ctrl-C. `bun run demo -- --check`: its main task once; prints one JSON object,
 * exit code 0 if every check passed, else 1. `--keep` keeps files and logs. Progress goes to stderr. Everything it starts ends with it.
 */
import { fileURLToPath } from "node:url";
import { quickenImports } from "#functions/node/quick-imports.ts";
import {
  errorMessages,
  Interrupted,
  type LabContext,
  reportFromLab,
  withLab,
} from "../lab/context.ts";
import { readCommandOptions } from "../read-command-options.ts";

/** The rest is loaded after the first line of output: it takes a second or more. */
const quicken = ({ progress }: LabContext) => {
  progress("starting");
  quickenImports(fileURLToPath(new URL("../../.cache/compile", import.meta.url)));
};

const chosen = readCommandOptions({ check: false, keep: false });
if (chosen.check) {
  await reportFromLab({ name: "demo", keep: chosen.keep }, async (context, cleanup) => {
    quicken(context);
    return (await import("./check.ts")).check(context, cleanup);
  });
} else {
  await withLab({ name: "demo", keep: chosen.keep }, async (context, cleanup) => {
    quicken(context);
    await (await import("./serve.ts")).serve(context, cleanup);
  }).catch((error: unknown) => {
    if (error instanceof Interrupted) return;
    console.error(errorMessages(error));
    process.exitCode = 1;
  });
}
