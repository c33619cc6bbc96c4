import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { collectorNodeFlags, programPaths } from "#scripts/bundle/bundle-programs.ts";
import { writeCollector, writeFiles } from "../support/collector-files.ts";
import type { StartCommand } from "../support/processes.ts";
import type { SinkAddress } from "../support/serve-sink.ts";

/** What a program follows, where it sends to, and where it keeps its files. */
interface Following {
  folder: string;
  pattern: string;
  sink: SinkAddress;
}

/** Writes the files of a program; returns how it is started. */
export type Follower = (following: Following) => Promise<StartCommand>;

/** Our collector, with a queue of 1 MiB. */
export const followWithOurs: Follower = async ({ folder, pattern, sink }) => {
  const sources = `  - {type: file, include: ["${pattern}"], start_at: beginning}`;
  const config = await writeCollector(folder, { ...sink, sources, queueMb: 1 });
  const program = [process.execPath, ...collectorNodeFlags, programPaths["svc-collector"]] as const;
  return {
    command: [...program, "run", "--config", config],
    ready: /collector runs/,
  };
};

/** A peer: its config in configs/, the command that starts it with a config, and what it then prints. */
interface Peer {
  config: string;
  command(program: string, config: string): StartCommand["command"];
  ready: RegExp;
  /** Returns the pattern that the peer is given for that of the log. */
  pattern?(pattern: string): string;
}

const otelcol: Peer = {
  config: "otelcol.yaml",
  command: (program, config) => [program, "--config", config],
  ready: /Everything is ready/,
};

/** The peers by their names, which are those of programs of the machine. otelcol also runs with a pattern for what rotation renames. */
export const peers: Readonly<Record<string, Peer>> = {
  otelcol,
  "otelcol, log*": { ...otelcol, pattern: (pattern) => `${pattern.replace("*", "")}*` },
  "fluent-bit": { ...otelcol, config: "fluent-bit.yaml", ready: /initializing/ },
  rsyslogd: {
    config: "rsyslog.conf",
    // It prints errors alone.
    command: (program, config) => [
      "sh",
      "-c",
      `echo starts; exec ${program} -n -iNONE -f ${config}`,
    ],
    ready: /starts/,
  },
};

/** Returns how a peer follows a log: with its config, in which words in capitals stand for what differs. */
export const followWithPeer =
  (
    program: string,
    { config, command, ready, pattern: patternOf = (same) => same }: Peer,
  ): Follower =>
  async ({ folder, pattern, sink: { endpoint, tls } }) => {
    await writeFiles(folder, { "tls.crt": tls.cert, "tls.key": tls.key, "ca.pem": tls.ca });
    await mkdir(join(folder, "state"), { recursive: true });
    const template = await readFile(new URL(`configs/${config}`, import.meta.url), "utf8");
    const path = join(folder, config);
    const text = template
      .replaceAll("FOLDER", folder)
      .replaceAll("PATTERN", patternOf(pattern))
      .replaceAll("PORT", endpoint.split(":")[1] ?? "");
    await writeFile(path, text);
    return { command: command(program, path), ready };
  };
