import { createHash, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { duplexPair } from "node:stream";
import { connect, createSecureContext, TLSSocket } from "node:tls";
import type { Clock } from "#kit/clock.ts";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import { caBundleBytesMax } from "#proto/management/enroll.ts";
import { decodePemBundle, encodePem } from "#proto/pem.ts";
import type { CaBundleContent } from "../domain/system/publish-ca-bundle.ts";
import { readTrustedFile, withConfigError } from "./config-files.ts";
import type { TlsMaterial } from "./follow-files.ts";
import { loadFiles, type Reloaded, type ReloadOptions } from "./reload-files.ts";

/** A followed file that has the CA bundle of a channel; null while it was never valid. */
export interface FollowedBundle extends Reloaded<CaBundleContent | null> {
  channel: CaChannel;
}

/**
 * Follows the file of a channel's CA bundle. A file that is refused ends no start: hosts keep the published bundle. With `tls` a bundle by
 * which hosts would reject the listener is refused.
 */
export const followCaBundle = async (
  { channel, variable, path }: { channel: CaChannel; variable: string; path: string },
  needs: {
    tls: (Pick<Reloaded<TlsMaterial>, "current"> & { paths: readonly string[] }) | null;
    clock: Pick<Clock, "now">;
    log: ReloadOptions<unknown>["log"];
  },
): Promise<FollowedBundle> => {
  const { tls, clock, log } = needs;
  const files = await loadFiles<CaBundleContent | null>({
    name: variable,
    // Another certificate of the listener may not be verified by the same bundle. It is in use once its key is there too.
    paths: [path, ...(tls?.paths ?? [])],
    initial: null,
    log,
    load: () =>
      withConfigError(variable, async () => {
        const content = readCaBundle(path, clock.now());
        if (tls && !(await isVerified(tls.current(), content.pem)))
          throw new Error("does not verify the certificate of the ingest listener");
        return content;
      }),
  });
  return { ...files, channel };
};

/** Beside certificates, files may have text. */
const fileBytesMax = 16 * caBundleBytesMax;

/** Returns the certificates of a file that are authorities, each once, in its order. Throws an `Error` that quotes nothing. */
const readCaBundle = (path: string, now: number): CaBundleContent => {
  const file = readTrustedFile(path);
  if (file.length > fileBytesMax) throw new Error("is larger than 1 MiB");
  const blocks = decodePemBundle(file.toString("latin1"), "CERTIFICATE");
  if (blocks === undefined) throw new Error("holds a malformed PEM block");
  const authorities = new Map<string, X509Certificate>();
  for (const der of blocks) {
    const certificate = readAuthorityCertificate(der);
    if (certificate) authorities.set(encodePem(der, "CERTIFICATE"), certificate);
  }
  if (authorities.size === 0) throw new Error("holds no certificate of an authority in PEM");
  if (authorities.values().every(({ validToDate }) => validToDate.getTime() < now))
    throw new Error("holds only authorities that have expired");
  const pem = [...authorities.keys()].join("");
  if (pem.length > caBundleBytesMax)
    throw new Error(`holds more than ${caBundleBytesMax} bytes of authorities`);
  return { pem, sha256: createHash("sha256").update(pem).digest("hex") };
};

const readAuthorityCertificate = (der: Uint8Array): X509Certificate | undefined => {
  try {
    const certificate = new X509Certificate(der);
    return certificate.ca ? certificate : undefined;
  } catch {
    return undefined;
  }
};

/** Reports whether a host that trusts only `ca` accepts a listener with these files: the two shake hands. */
const isVerified = async ({ cert, key }: TlsMaterial, ca: string): Promise<boolean> => {
  const [near, far] = duplexPair();
  const listener = new TLSSocket(far, {
    isServer: true,
    secureContext: createSecureContext({ cert, key }),
  });
  listener.on("error", () => undefined);
  const host = connect({ socket: near, ca, checkServerIdentity: () => undefined });
  try {
    await once(host, "secureConnect");
    return true;
  } catch {
    return false;
  } finally {
    host.destroy();
    listener.destroy();
  }
};
