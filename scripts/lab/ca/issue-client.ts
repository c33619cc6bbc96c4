import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { signerLoader } from "#functions/node/follow-files.ts";
import { createNodeCryptography } from "#functions/node/node-cryptography.ts";
import { type Clock, systemClock } from "#kit/clock.ts";
import { type Entropy, systemEntropy } from "#kit/entropy.ts";
import { labPkiIn, writeCredentialFiles } from "./pki.ts";
import { createTestKey } from "./test-pki.ts";

/**
 * Provisions a client manually: a key and a certificate for `identity` from the lab's enrollment CA, in the profile that core issues, at
 * `DIR/clients/<identity, as a file name>/tls.{crt,key}`. Core has no row of it, so the client can forward while enrollment is not
 * required, and can neither send heartbeats nor renew. Throws if `identity` is no URI, or has a certificate there already.
 */
export const issueClient = async (options: {
  dir: string;
  identity: string;
  /** A day by default. */
  lifetimeSeconds?: number;
  clock?: Pick<Clock, "now">;
  entropy?: Entropy;
}) => {
  const { dir, identity, lifetimeSeconds = 86_400 } = options;
  const { clock = systemClock, entropy = systemEntropy } = options;
  if (!URL.canParse(identity) || !/^[\x21-\x7e]{1,253}$/.test(identity))
    throw new Error("the identity must be an absolute URI of 1 to 253 printable ASCII characters");
  const { enrollmentCa } = labPkiIn(dir);
  const load = await signerLoader(
    { kind: "local-ca", caCertFile: enrollmentCa.certFile, caKeyFile: enrollmentCa.keyFile },
    { cryptography: createNodeCryptography(), clock, log: console },
  );
  const { signer } = await load();
  const { pem: keyPem, spki } = await createTestKey();
  const issued = await signer.sign({
    // The local CA uses the key and the identity alone.
    csrPem: "",
    spki,
    identity,
    ttlSeconds: lifetimeSeconds,
    serial: entropy.bytes(16),
    now: clock.now(),
  });
  const folder = join(dir, "clients", identity.replace(/[^A-Za-z0-9.-]/g, "_"));
  const files = { certFile: join(folder, "tls.crt"), keyFile: join(folder, "tls.key") };
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeCredentialFiles(files, {
    certificatePem: issued.certificatePem + issued.chainPem,
    keyPem,
  }).catch((cause) => {
    throw new Error("its key cannot be written; is there a certificate of this identity already?", {
      cause,
    });
  });
  const { serialNumber, fingerprintSha256, notAfter } = issued;
  return { ...files, identity, serialNumber, fingerprintSha256, notAfter };
};
