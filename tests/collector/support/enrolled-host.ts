import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { encodePem } from "#proto/pem.ts";
import {
  createTestCa,
  createTestKey,
  issueTestCertificate,
  type TestCa,
  type TestName,
} from "#scripts/lab/ca/test-pki.ts";
import { newFolder } from "#tests/support/new-folder.ts";

/** The directories of a host as `enroll` writes them, with credentials from a temporary authority. */
export type EnrolledHost = Awaited<ReturnType<typeof createEnrolledHost>>;

/** Creates one in a folder of the test. `names` replaces the certificate's single URI. */
export const createEnrolledHost = async (
  options: {
    names?: readonly TestName[];
    identity?: string;
    ca?: TestCa;
    endpoint?: string;
    more?: string;
    /** The content of `core-ca.pem`; by default the authority's own certificate. */
    caPem?: string;
  } = {},
) => {
  const { identity = "https://fleet.test/d/host-1" } = options;
  const dir = newFolder();
  const ca = options.ca ?? (await createTestCa());
  const key = await createTestKey();
  const names = options.names ?? [{ type: "url", value: identity }];
  const der = await issueTestCertificate({
    ca,
    key,
    names,
    notBefore: new Date("2026-01-01"),
    notAfter: new Date("2099-01-01"),
  });
  const pairs = join(dir, "identity", "pairs");
  await mkdir(join(pairs, "first"), { recursive: true, mode: 0o700 });
  await chmod(join(dir, "identity"), 0o700);
  await writeFile(join(pairs, "first", "tls.crt"), encodePem(der, "CERTIFICATE"), { mode: 0o600 });
  await writeFile(join(pairs, "first", "tls.key"), key.pem, { mode: 0o600 });
  await symlink("pairs/first", join(dir, "identity", "current"));
  await writeFile(join(dir, "core-ca.pem"), options.caPem ?? ca.pem);
  const configText = `forwarder:
  endpoint: ${options.endpoint ?? "core.example.net:8443"}
  mtls: {cert_file: identity/current/tls.crt, key_file: identity/current/tls.key, ca_file: core-ca.pem}
buffer: {dir: data}
${options.more ?? ""}`;
  const config = join(dir, "collector.yaml");
  await writeFile(config, configText);
  return {
    dir,
    config,
    /** The text of `config`, to which a test may append. */
    configText,
    certFile: join(dir, "identity", "current", "tls.crt"),
    keyFile: join(dir, "identity", "current", "tls.key"),
    identity,
    ca,
    key,
  };
};
