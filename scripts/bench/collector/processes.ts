import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";
import { programPaths } from "../../bundle/bundle-programs.ts";

/** What the far end has taken so far. */
export interface Taken {
  envelopes: number;
  bytes: number;
}

/** The far end of the bench; see sink.ts. */
export interface Sink {
  endpoint: string;
  hostId: string;
  tls: { cert: string; key: string; ca: string };
  taken(): Promise<Taken>;
  close(): Promise<void>;
}

/** Starts the far end in a process of its own. */
export const startSink = async (): Promise<Sink> => {
  const child = spawn(process.execPath, [fileURLToPath(new URL("sink.ts", import.meta.url))], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout });
  const where: Pick<Sink, "endpoint" | "hostId" | "tls"> = JSON.parse(await nextLine(lines));
  return {
    ...where,
    taken: async () => {
      const line = nextLine(lines);
      child.stdin.write("?\n");
      return JSON.parse(await line);
    },
    close: async () => {
      child.stdin.end();
      await once(child, "exit");
    },
  };
};

const nextLine = async (lines: Interface): Promise<string> => {
  const [line] = await once(lines, "line");
  return String(line);
};

/** A collector's `run` as a process of its own, in a directory that goes with it. */
export interface CollectorProcess {
  pid: number;
  /** The address that it listens on for OTLP over gRPC; empty without an `otlp` source. */
  grpcAddress: string;
  stop(): Promise<void>;
}

/** Starts `command run` with these `sources` (YAML) and waits until it runs. */
export const startCollector = async (
  sink: Pick<Sink, "endpoint" | "tls">,
  sources: string,
  command: readonly string[] = [process.execPath, programPaths["svc-collector"]],
): Promise<CollectorProcess> => {
  const dir = await mkdtemp(join(tmpdir(), "bench-collector-"));
  for (const [name, text] of Object.entries({
    "tls.crt": sink.tls.cert,
    "tls.key": sink.tls.key,
    "ca.pem": sink.tls.ca,
    "collector.yaml": `run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE
sources:
${sources}
forwarder:
  endpoint: ${sink.endpoint}
  mtls: {cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem}
buffer: {dir: data}
`,
  }))
    await writeFile(join(dir, name), text, { mode: 0o600 });
  const [program = "", ...args] = [...command, "run", "--config", join(dir, "collector.yaml")];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  const grpcAddress = await runningAddress(child);
  return {
    pid: child.pid ?? 0,
    grpcAddress,
    stop: async () => {
      child.kill("SIGTERM");
      if (child.exitCode === null) await once(child, "exit");
      await rm(dir, { recursive: true });
    },
  };
};

const runningAddress = (child: ChildProcess): Promise<string> =>
  new Promise((resolve, reject) => {
    if (child.stdout === null) throw new TypeError("the collector's output is not read");
    let address = "";
    const lines: string[] = [];
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (lines.length < 100) lines.push(line);
      const record: { msg?: string; transport?: string; address?: string } = JSON.parse(line);
      if (record.transport === "grpc") address = record.address ?? "";
      if (record.msg === "collector runs") resolve(address);
    });
    child.once("exit", (code) => reject(new Error(`the collector ended with ${code}:\n${lines.join("\n")}`)));
  });
