import type { Plan } from "../scenario/plan.ts";
import { expectStatus, textOf, type Wire } from "./wire.ts";

/** What an admin does for a driven fleet. */
export interface FleetOperator {
  /** A token that enrolls under the policy of this lifetime, made when it is first asked for and again before it expires. */
  bootstrapToken(ttl: "usual" | "short"): Promise<string>;
  revokeIdentity(identityId: string, reasonCode: string): Promise<void>;
  revokeCertificate(certificateId: string, reasonCode: string): Promise<void>;
  /** Assigns the plan's current config, which is published when it is first assigned. */
  assign(identityId: string): Promise<void>;
}

const tokenSeconds = 604_800;
const freshMs = 60_000;

/** An admin who calls core with `bearer`, read anew for each call as it may be replaced. `run` is in the names of what it makes. */
export const createFleetOperator = (
  wire: Pick<Wire, "call">,
  { bearer, plan, run, now }: { bearer: () => Promise<string>; plan: Plan; run: string; now: () => number },
): FleetOperator => {
  const call = async (method: string, path: string, body: object, status: number) =>
    expectStatus(await wire.call({ method, path: `/v1/collector/${path}`, body, bearer: await bearer() }), status);

  const policies = cached(async (ttl: "usual" | "short") => {
    const body = {
      name: `fleet-sim ${run} ${ttl}`,
      allowed_identity_prefixes: [plan.identityPrefix],
      certificate_ttl_seconds: plan.ttlSeconds[ttl],
    };
    return textOf(await call("POST", "enrollment-policies", body, 201), "id");
  });
  const createToken = async (ttl: "usual" | "short") => {
    const path = `enrollment-policies/${await policies(ttl)}/tokens`;
    const token = textOf(await call("POST", path, { ttl_seconds: tokenSeconds, max_uses: 0 }, 201), "token");
    return { token, freshUntil: now() + tokenSeconds * 1000 - freshMs };
  };
  const tokens = new Map<string, ReturnType<typeof createToken>>();
  const configs = cached(async () => {
    const { name, yaml } = plan.configs.current;
    return textOf(await call("POST", "configs", { name, yaml }, 201), "id");
  });

  return {
    async bootstrapToken(ttl) {
      const known = await tokens.get(ttl)?.catch(() => undefined);
      if (known !== undefined && known.freshUntil > now()) return known.token;
      const pending = createToken(ttl);
      tokens.set(ttl, pending);
      return (await pending).token;
    },
    async revokeIdentity(identityId, reasonCode) {
      await call("POST", `identities/${identityId}/revoke`, { reason_code: reasonCode }, 200);
    },
    async revokeCertificate(certificateId, reasonCode) {
      await call("POST", `certificates/${certificateId}/revoke`, { reason_code: reasonCode }, 200);
    },
    async assign(identityId) {
      await call("PUT", `identities/${identityId}/desired-config`, { config_id: await configs("current") }, 200);
    },
  };
};

/** Makes what is asked for by name once; again if making it failed. */
const cached = <Name extends string>(make: (name: Name) => Promise<string>): ((name: Name) => Promise<string>) => {
  const made = new Map<Name, Promise<string>>();
  return (name) => {
    const known = made.get(name);
    if (known !== undefined) return known;
    const making = make(name);
    made.set(name, making);
    making.catch(() => made.delete(name));
    return making;
  };
};
