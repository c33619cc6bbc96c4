import { closeSync, fsyncSync, openSync, writeFileSync } from "node:fs";
import { rfc3339 } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import { cutText } from "#proto/values.ts";
import { defaultConfigPath } from "../config/load-config.ts";
import { type DeadLetter, eachDeadLetter } from "../queue/dead-letters.ts";
import { readQueueStats } from "../queue/stats.ts";
import {
  type CommandOutcome,
  commandFailure,
  defineCommand,
  exitCode,
  loadParsedConfig,
} from "./command.ts";

/**
 * `dead-letters`: lists the rejected records that the queue keeps, without their payloads; `--out` writes them with their payloads to a new
 * file. Takes no lock and changes nothing in the queue.
 */
export const deadLettersCommand = defineCommand({
  usage: `  --config <path>   the collector's config (default ${defaultConfigPath})
  --out <path>      also write them to this new file (mode 0600): one JSON object a line, the payload in base64
  --json            one JSON object on stdout
`,
  flags: { config: "text", out: "text" },
  run: async (flags, env) => {
    const config = await loadParsedConfig(flags.config, env);
    const { dir } = config.buffer;
    const letters: ListedLetter[] = [];
    const save = flags.out === undefined ? undefined : createExport(flags.out);
    try {
      eachDeadLetter(dir, (letter) => {
        letters.push(listed(letter));
        save?.write(letter);
      });
    } finally {
      save?.close();
    }
    const total = readQueueStats(dir, { ...config.buffer, clock: env.clock })?.deadLetters ?? 0;
    return describe(letters, total, flags.out);
  },
});

/** A dead letter without its payload, as it is printed. */
type ListedLetter = ReturnType<typeof listed>;

const listed = (letter: DeadLetter) => ({
  queue_id: letter.queueId,
  sequence: letter.sequence,
  code: letter.code,
  message: letter.message,
  rejected_at: rfc3339(letter.rejectedAtMs),
  observed_at: rfc3339(letter.observedAtMs),
  kind: letter.kind,
  source: letter.source,
  attributes: letter.attributes,
  ...(letter.isDamaged && { damaged: ["attributes"] }),
  payload_bytes: letter.payload.length,
});

/** Creates the file of an export. Throws a failure if it exists or cannot be created. */
const createExport = (path: string) => {
  let file: number;
  try {
    file = openSync(path, "wx", 0o600);
  } catch (cause) {
    const exists = errorCode(cause) === "EEXIST";
    throw commandFailure(
      exists ? "file_exists" : "file_unwritable",
      exists
        ? "the file of --out exists and is kept; choose another"
        : "the file of --out cannot be created",
      { cause },
    );
  }
  return {
    write: (letter: DeadLetter) => {
      const line = { ...listed(letter), payload: Buffer.from(letter.payload).toString("base64") };
      // Unlike `writeSync`, fails if the disk has room for only a part.
      writeFileSync(file, `${JSON.stringify(line)}\n`);
    },
    close: () => {
      fsyncSync(file);
      closeSync(file);
    },
  };
};

const textMax = 200;

const describe = (
  letters: readonly ListedLetter[],
  total: number,
  out: string | undefined,
): CommandOutcome => {
  const lines = letters.map(
    ({ rejected_at, sequence, kind, source, payload_bytes, code, message, damaged }) => {
      const size = `${payload_bytes} bytes${damaged ? ", damaged attributes" : ""}`;
      return cutText(
        `${rejected_at}  ${sequence}  ${kind}  ${source}  ${size}  ${code}: ${message}`,
        textMax,
      );
    },
  );
  const saved = out === undefined ? "" : `, written to ${out}`;
  const summary = `${letters.length} dead letters are kept${saved}; ${total} in all since the queue was created`;
  return {
    exitCode: exitCode.done,
    lines: [],
    text: [...lines, summary].map((line) => `${line}\n`).join(""),
    json: { ok: true, dead_letters_total: total, dead_letters: letters },
  };
};
