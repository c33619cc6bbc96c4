import { and, eq } from "drizzle-orm";
import { afterAll } from "vitest";
import { auditEvent } from "#drizzle/schema/audit.ts";
import type { Signer } from "#functions/signer/signer.ts";
import type { Environment } from "#kit/env.ts";
import { type Answer, createTestCore } from "../core.ts";

/** The answer to a request that may be refused. */
export type RefusableAnswer = Answer<Record<string, unknown>>;

const working = (signer: Signer) => signer.sign;

/** Creates a core that refuses; it ends with the tests of the file. Each refusal has an address of its own, which identifies its audit events. */
export const createRefusingCore = async (env: Environment = {}) => {
  let sign = working;
  const wrapSigner = (signer: Signer): Signer => ({
    ...signer,
    sign: (request) => sign(signer)(request),
  });
  const test = await createTestCore({ env, wrapSigner });
  afterAll(() => test.close());
  let rows = 0;
  return {
    ...test,
    /** Has the signer sign in another way; without one as it does. */
    signBy: (next = working) => {
      sign = next;
    },
    newAddress: () => `10.9.${++rows >> 8}.${rows & 255}`,
    deviceOf: (from: string) => `host-${from}`,
    admin: (path: string) => test.api("POST", `/v1/collector/${path}`, { as: "admin" }),
    eventsFrom: async (from: string) => {
      const found = and(eq(auditEvent.remoteAddr, from), eq(auditEvent.outcome, "failure"));
      return test.db.select().from(auditEvent).where(found).orderBy(auditEvent.id);
    },
  };
};
