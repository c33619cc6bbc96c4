import { sql } from "drizzle-orm";
import type { TestKey } from "#scripts/lab/ca/test-pki.ts";
import {
  coreAudience,
  type KubernetesIssuer,
  startKubernetesIssuer,
  type TokenPod,
} from "../access/kubernetes-issuer.ts";
import { enrollmentOf, postEnrollment } from "../collector.ts";
import { createTestCore } from "../core.ts";

/** The prefix of the identities of nodes. */
export const nodePrefix = "spiffe://fleet.test/node/";

/** The rule for the pods of a `TokenPod`. */
export const collectorRule = { pattern: "system:serviceaccount:fleet-collector:collector" };

/** Starts the clusters on loopback, and creates the core. */
export const createNodeDeployment = async () => {
  const [cluster, other] = await Promise.all([startKubernetesIssuer(), startKubernetesIssuer()]);
  const issuers = [cluster, other].map(
    ({ url }) => `{ issuer: "${url}", audience: "${coreAudience}" }`,
  );
  const test = await createTestCore({
    env: { SVC_WORKLOAD_ISSUERS: `issuers: [${issuers.join(", ")}]` },
  });
  const { clock, db } = test;
  const path = "/v1/collector/enrollment-policies";
  let names = 0;
  const nameOf = (what: string) => `${what}-${++names}`;
  const addressOf = () => `10.9.${Math.floor(++names / 250)}.${names % 250}`;
  const draftOf = (workload: object = {}, over: object = {}) => ({
    name: nameOf("policy"),
    allowed_identity_prefixes: [nodePrefix],
    workload: { issuer: cluster.url, rules: [collectorRule], ...workload },
    ...over,
  });
  return {
    test,
    cluster,
    other,
    /** Returns a name of its own. */
    nameOf,
    /** Returns the address of a caller of its own: a refusal of each has an event. */
    addressOf,
    /** Returns the body that creates a policy for `cluster`. */
    draftOf,
    createPolicy: async (workload?: object, over?: object) => {
      const { body } = await test.admin.post(path, draftOf(workload, over));
      // Ids are ordered by millisecond.
      await clock.advance(1);
      return String(body.id);
    },
    freeze: (policyId: string) => test.admin.post(`${path}/${policyId}/freeze`),
    /** Lets all policies of earlier tests admit no service account tokens. */
    forgetPolicies: () => db.execute(sql`update enrollment_policy set workload = null`),
    tokenOf: (pod: TokenPod = {}, from: KubernetesIssuer = cluster) =>
      from.signPod(pod, clock.now()),
    enroll: async (
      token: string,
      deviceId: string,
      { key, from }: { key?: TestKey; from?: string } = {},
    ) => {
      const body = await enrollmentOf(deviceId, { key, prefix: nodePrefix });
      return postEnrollment(test, token, body, { from: from ?? addressOf() });
    },
    /** Returns the audit events of an address. */
    eventsFrom: (address: string) =>
      db.execute<{ outcome: string; reason: string | null; details: Record<string, unknown> }>(
        sql`select outcome, reason, details from audit_event where remote_addr = ${address} order by id`,
      ),
    close: async () => {
      for (const issuer of [cluster, other]) issuer.close();
      await test.close();
    },
  };
};
