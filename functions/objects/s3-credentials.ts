import { minuteMs } from "#kit/clock.ts";
import { singleFlight } from "#kit/group-calls.ts";
import { ObjectStoreUnavailable } from "./object-store.ts";
import { exchange, type S3CredentialSource, type S3Credentials, type S3Needs } from "./s3-calls.ts";

/** Before its end, so that a service that fails meanwhile stops nothing. */
const renewedBeforeMs = 5 * minuteMs;

/** A role that a token of this workload may assume. */
export interface WebIdentity {
  roleArn: string;
  /** The security token service, as `https://sts.eu-central-1.amazonaws.com`. */
  url: string;
  readToken(): string;
}

interface HeldKey {
  key: S3Credentials;
  expiresAt: number;
}

/** Creates the source of keys by `AssumeRoleWithWebIdentity`. Renews a key before it ends, and when it is rejected. */
export const createWebIdentityKeys = (
  identity: WebIdentity,
  needs: Pick<S3Needs, "send" | "clock">,
): S3CredentialSource => {
  let held: HeldKey | null = null;
  const assume = singleFlight(() => assumeRole(identity, needs));
  const isHeld = (forMs: number) => held !== null && needs.clock.now() + forMs < held.expiresAt;
  return {
    async current() {
      if (!isHeld(renewedBeforeMs))
        try {
          held = await assume();
        } catch (cause) {
          if (!isHeld(0))
            throw new ObjectStoreUnavailable("the token service gives no key", { cause });
        }
      return (held as HeldKey).key;
    },
    reject(key) {
      if (held?.key === key) held = null;
    },
  };
};

const assumeRole = async (
  identity: WebIdentity,
  needs: Pick<S3Needs, "send" | "clock">,
): Promise<HeldKey> => {
  const form = new URLSearchParams({
    Action: "AssumeRoleWithWebIdentity",
    Version: "2011-06-15",
    RoleArn: identity.roleArn,
    RoleSessionName: "svc-server",
    WebIdentityToken: identity.readToken(),
  });
  const { status, bytes } = await exchange(needs, {
    method: "POST",
    url: identity.url,
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: [new TextEncoder().encode(form.toString())],
  });
  const text = new TextDecoder().decode(bytes ?? undefined);
  const field = (name: string) => {
    const [, value] = new RegExp(`<${name}>([^<]+)</${name}>`).exec(text) ?? [];
    if (value === undefined) throw new Error(`HTTP ${status} without ${name}`);
    return value;
  };
  const key = {
    accessKeyId: field("AccessKeyId"),
    secretAccessKey: field("SecretAccessKey"),
    sessionToken: field("SessionToken"),
  };
  return { key, expiresAt: Date.parse(field("Expiration")) };
};
