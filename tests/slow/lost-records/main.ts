/**
 * `bun run lost-records`: plays stories in which records are lost, with real programs on loopback, and prints what each part says of their
 * hour: host, page, CSV, statement, both verifiers and chat. Exit code 1 if one of them calls such an hour complete, or takes a changed file.
 * tests/collector/hour-states.test.ts plays the same with a clock of its own.
 */
import { reportFromLab } from "#scripts/lab/context.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { playStories } from "./play-stories.ts";

const { keep } = readCommandOptions({ keep: false });
await reportFromLab({ name: "lost-records", keep }, playStories);
