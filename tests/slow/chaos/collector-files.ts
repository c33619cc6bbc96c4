import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

/** Writes the files of a collector with a `file` source and an `otlp` source over gRPC to `<dir>/host`, and an empty log beside them. */
export const writeCollectorFiles = async (
  dir: string,
  options: { cert: string; key: string; caPem: string; otlpPort: number; ingestPort: number },
) => {
  const host = join(dir, "host");
  await mkdir(host);
  const log = join(dir, "logs", "app.log");
  await mkdir(dirname(log));
  await writeFile(log, "");
  for (const [name, text] of Object.entries({
    "tls.crt": options.cert,
    "tls.key": options.key,
    "ca.pem": options.caPem,
    "collector.yaml": `run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE
sources:
  - {type: otlp, grpc: {listen: "127.0.0.1:${options.otlpPort}"}}
  - {type: file, include: ["${log}"], start_at: beginning}
forwarder: {endpoint: "localhost:${options.ingestPort}", mtls: {cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem}}
buffer: {dir: data}
`,
  }))
    await writeFile(join(host, name), text, { mode: 0o600 });
  return { config: join(host, "collector.yaml"), log };
};
