import { appendFileSync } from "node:fs";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { parseDocument } from "yaml";
import { type Program, startProgram, stopProgram } from "#tests/support/program.ts";

/** The files of a host. */
interface HostFiles {
  /** Holds the host's files, and the bootstrap token in `token`. */
  dir: string;
  identityPrefix: string;
}

/** The addresses with which a host enrolls. */
export interface HostTarget {
  coreUrl: string;
  ingestPort: number;
  /** The CAs of core and edge. */
  caBundle: string;
}

/** A host whose collector runs as a process and tails one file; every command is the collector's own. */
export type HostProgram = ReturnType<typeof createHostProgram>;

/** The parts of `svc-collector diag` that tests read. */
interface HostDiagnosis {
  running: {
    forwarder: { last_error: string | null };
    heartbeat: { last_error: string | null };
  } | null;
  queue: { records: number };
  trust: object;
}

/** Creates a host that is not enrolled; `target` is read at each enrollment. */
export const createHostProgram = (
  deviceId: string,
  { dir, identityPrefix }: HostFiles,
  target: () => HostTarget,
) => {
  const configDir = join(dir, deviceId);
  const config = join(configDir, "collector.yaml");
  const log = join(dir, `${deviceId}.log`);
  let program: Program | undefined;
  const command = async (name: string, ...args: string[]) => {
    const run = startProgram("collector/main.ts", [name, ...args]);
    await run.exited;
    return run;
  };
  const edit = async (path: readonly (string | number)[], value: unknown) => {
    const document = parseDocument(await readFile(config, "utf8"));
    document.setIn(path, document.createNode(value));
    await writeFile(config, document.toString());
  };
  return {
    deviceId,
    identity: identityPrefix + deviceId,
    configDir,
    /** Fails the test when the command does. */
    enroll: async (...more: string[]) => {
      const { coreUrl, ingestPort, caBundle } = target();
      const run = await command(
        "enroll",
        "--core",
        coreUrl,
        "--ingest",
        `localhost:${ingestPort}`,
        "--token-file",
        join(dir, "token"),
        "--device-id",
        deviceId,
        "--identity-prefix",
        identityPrefix,
        ...(more.includes("--ca-bundle") ? [] : ["--ca-bundle", caBundle]),
        "--config-dir",
        configDir,
        ...more,
        ...(process.geteuid?.() === 0
          ? ["--allow-root-acknowledged", "I-UNDERSTAND-ROOT-MODE"]
          : []),
      );
      expect(await run.exited, run.stderr).toBe(0);
    },
    /** Makes the log its only source, read from the beginning. */
    tail: async () => {
      await edit(["sources"], [{ type: "file", include: [log], start_at: "beginning" }]);
      appendFileSync(log, "");
    },
    /** Sets a value of the config. */
    edit,
    /** Appends lines to the log, each after the name of the host. */
    // Not as a promise: of two at once, the later may write first.
    write: (...lines: string[]) =>
      appendFileSync(log, lines.map((line) => `${deviceId} ${line}\n`).join("")),
    start: () => {
      program = startProgram("collector/main.ts", ["run", "--config", config]);
    },
    /** The running collector. */
    program: () => program,
    renew: async () => {
      const run = await command("renew", "--config", config);
      expect(await run.exited, run.stderr).toBe(0);
    },
    /** Reports whether core has not yet accepted the newest credentials. */
    hasPendingPromotion: () =>
      stat(join(configDir, "identity", "previous")).then(
        () => true,
        () => false,
      ),
    diag: async () => {
      const run = await command("diag", "--json", "--config", config);
      return run.records[0] as unknown as HostDiagnosis;
    },
    /** Stops the collector; fails the test unless it exits with 0. */
    stop: async () => {
      if (program) expect(await stopProgram(program), program.stderr).toBe(0);
    },
  };
};
