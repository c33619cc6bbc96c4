import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { BenchSink } from "../collector/collector-run.ts";
import { writeFiles } from "../support/collector-files.ts";
import { type RunningProgram, startProgram } from "../support/processes.ts";

/** How otelcol keeps what it has acknowledged: in memory, or in a file that it syncs. */
export type OtelcolQueue = "memory" | "synced-file";

/** The receivers section of a config (YAML, indented by two), and the receiver of each pipeline. */
export interface OtelcolSource {
  receivers: string;
  pipelines: Readonly<Partial<Record<"traces" | "logs", string>>>;
}

/** Starts otelcol between a source and a sink, with its files in `folder`. Its exporter compresses with gzip, as ours does. */
export const startOtelcol = async (
  program: string,
  folder: string,
  { endpoint, tls }: BenchSink,
  { queue, source }: { queue: OtelcolQueue; source: OtelcolSource },
): Promise<RunningProgram> => {
  const storage = join(folder, "storage");
  await mkdir(storage, { recursive: true });
  const synced = queue === "synced-file";
  const pipelines = Object.entries(source.pipelines).map(
    ([kind, receiver]) =>
      `    ${kind}: {receivers: [${receiver}], processors: [${synced ? "" : "batch"}], exporters: [otlp]}`,
  );
  const files = {
    "tls.crt": tls.cert,
    "tls.key": tls.key,
    "ca.pem": tls.ca,
    "otelcol.yaml": `receivers:
${source.receivers}
processors:
  batch: {}
exporters:
  otlp:
    endpoint: ${endpoint}
    tls: {cert_file: ${folder}/tls.crt, key_file: ${folder}/tls.key, ca_file: ${folder}/ca.pem}
    sending_queue: ${synced ? "{block_on_overflow: true, storage: file_storage, batch: {}}" : "{block_on_overflow: true}"}
extensions:
  file_storage: {directory: ${storage}, fsync: true}
service:
  extensions: [${synced ? "file_storage" : ""}]
  telemetry: {metrics: {level: none}}
  pipelines:
${pipelines.join("\n")}
`,
  };
  await writeFiles(folder, files);
  return startProgram({
    command: [program, "--config", join(folder, "otelcol.yaml")],
    ready: /Everything is ready/,
  });
};
