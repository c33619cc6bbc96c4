import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { encodePem } from "#proto/pem.ts";
import {
  clientExtensions,
  createTestKey,
  issueTestCertificate,
  serverExtensions,
  type TestCa,
  type TestName,
  testNames,
} from "#scripts/lab/ca/test-pki.ts";

/** A certificate with its key, in PEM. */
export interface BenchCredentials {
  cert: string;
  key: string;
}

/** Issues the certificate of a collector (a URI) or of a server (an address). */
export const issueBenchCredentials = async (
  ca: TestCa,
  name: TestName,
): Promise<BenchCredentials> => {
  const key = await createTestKey();
  const purposes = name.type === "url" ? clientExtensions() : serverExtensions();
  const dates = { notBefore: new Date("2026-01-01"), notAfter: new Date("2099-01-01") };
  const der = await issueTestCertificate({
    ca,
    key,
    ...dates,
    extensions: [testNames([name]), ...purposes],
  });
  return { cert: encodePem(der, "CERTIFICATE"), key: key.pem };
};

/** Writes credentials and config of a collector with these `sources` (YAML) into `folder`, created if missing; returns the path of the config. */
export const writeCollector = async (
  folder: string,
  {
    sources,
    endpoint,
    tls,
    queueMb = 100,
  }: {
    sources: string;
    endpoint: string;
    tls: BenchCredentials & { ca: string };
    queueMb?: number;
  },
): Promise<string> => {
  const files = {
    "tls.crt": tls.cert,
    "tls.key": tls.key,
    "ca.pem": tls.ca,
    "collector.yaml": `run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE
sources:
${sources}
forwarder:
  endpoint: ${endpoint}
  mtls: {cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem}
buffer: {dir: data, max_disk_usage_mb: ${queueMb}}
`,
  };
  await writeFiles(folder, files);
  return join(folder, "collector.yaml");
};

/** Writes private files by name into `folder`, created if missing. */
export const writeFiles = async (
  folder: string,
  files: Readonly<Record<string, string>>,
): Promise<void> => {
  await mkdir(folder, { recursive: true });
  for (const [name, text] of Object.entries(files))
    await writeFile(join(folder, name), text, { mode: 0o600 });
};
