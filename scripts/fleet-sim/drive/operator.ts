import type { AgentKind } from "#proto/values.ts";
import type { Plan } from "../scenario/plan.ts";
import { expectStatus, textOf, type Wire } from "./wire.ts";

/** The calls that an admin makes for a driven fleet. */
export interface FleetOperator {
  /** Returns a token that enrolls under the policy of this lifetime. Creates it on first use, and again before it expires. */
  bootstrapToken(ttl: "usual" | "short"): Promise<string>;
  revokeIdentity(identityId: string, reasonCode: string): Promise<unknown>;
  revokeCertificate(certificateId: string, reasonCode: string): Promise<unknown>;
  /** Assigns a config of the plan. Publishes it on first use. */
  assign(identityId: string, kind: AgentKind, version: ConfigVersion): Promise<unknown>;
}

type ConfigVersion = "previous" | "current";

const tokenSeconds = 604_800;
const tokenSpareMs = 60_000;

/** Creates an admin who calls core with `bearer`, which is read anew for each call. The names of created resources contain `run`. */
export const createFleetOperator = (
  wire: Pick<Wire, "call">,
  {
    bearer,
    plan,
    run,
    now,
  }: { bearer: () => Promise<string>; plan: Plan; run: string; now: () => number },
): FleetOperator => {
  const call = async (method: string, path: string, body: object, status: number) =>
    expectStatus(
      await wire.call({ method, path: `/v1/collector/${path}`, body, bearer: await bearer() }),
      status,
    );
  const post = (path: string, body: object, status: number) => call("POST", path, body, status);

  /** Caches the result of `create` by name; creates it again after a failure, or once it is older than `freshMs`. */
  const cached = <Name extends string>(
    create: (name: Name) => Promise<string>,
    freshMs = Number.POSITIVE_INFINITY,
  ) => {
    const created = new Map<Name, { value: Promise<string>; until: number }>();
    return (name: Name): Promise<string> => {
      const known = created.get(name);
      if (known !== undefined && known.until > now()) return known.value;
      const value = create(name);
      created.set(name, { value, until: now() + freshMs });
      value.catch(() => created.delete(name));
      return value;
    };
  };

  const policyOf = cached(async (ttl: "usual" | "short") => {
    const body = {
      name: `fleet-sim ${run} ${ttl}`,
      allowed_identity_prefixes: [plan.identityPrefix],
      certificate_ttl_seconds: plan.ttlSeconds[ttl],
    };
    return textOf(await post("enrollment-policies", body, 201), "id");
  });
  const configsOf = (kind: AgentKind) =>
    cached(async (version: ConfigVersion) => {
      const { name, yaml } = plan.configs[kind][version];
      return textOf(await post("configs", { name, yaml, kind }, 201), "id");
    });
  const configOf = { "svc-collector": configsOf("svc-collector"), otelcol: configsOf("otelcol") };

  return {
    bootstrapToken: cached(
      async (ttl) => {
        const path = `enrollment-policies/${await policyOf(ttl)}/tokens`;
        return textOf(await post(path, { ttl_seconds: tokenSeconds, max_uses: 0 }, 201), "token");
      },
      tokenSeconds * 1000 - tokenSpareMs,
    ),
    revokeIdentity: (id, reasonCode) =>
      post(`identities/${id}/revoke`, { reason_code: reasonCode }, 200),
    revokeCertificate: (id, reasonCode) =>
      post(`certificates/${id}/revoke`, { reason_code: reasonCode }, 200),
    assign: async (id, kind, version) =>
      call(
        "PUT",
        `identities/${id}/desired-config`,
        { config_id: await configOf[kind](version) },
        200,
      ),
  };
};
