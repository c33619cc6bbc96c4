import { expect, it } from "vitest";
import type { ScimProvider } from "#functions/config/directory-config.ts";
import { insertCode } from "#functions/store/operator-session/operator-sessions.ts";
import { sha256 } from "#kit/bytes.ts";
import { useTestCore } from "#tests/support/core.ts";
import { scimEnvironment } from "#tests/support/scim.ts";
import { redeemCode } from "../operator-session/authorization-codes.ts";
import { createAuthenticateProvider } from "../scim/authenticate-provider.ts";
import { createTokenExchange } from "../workload/exchange-token.ts";
import { flushRefusals } from "./flush-refusals.ts";
import { recordProviderLogout, recordSignIn } from "./web-sessions.ts";

const test = await useTestCore({ env: scimEnvironment });
const { core, people } = test;
const { sql } = test.database.connect();

const code = "a-code-that-somebody-has-used";
const at = new Date(core.clock.now());
await insertCode(core.db, {
  codeSha256: await sha256(code),
  userId: people.admin.userId,
  codeChallenge: "x".repeat(43),
  redirectUri: "http://127.0.0.1/",
  clientName: "svc-admin",
  createdAt: at,
  usedAt: at,
  sessionId: null,
  webSessionId: null,
  webSessionExpiresAt: null,
});
const exchange = createTokenExchange(core);
const authenticate = createAuthenticateProvider({
  ...core,
  scim: core.config.directory.provider as ScimProvider,
});
const redemption = { code, codeVerifier: "y", redirectUri: "http://127.0.0.1/" };

const logout = {
  jti: "used",
  subject: "1",
  providerSessionId: null,
  expiresAt: new Date(core.clock.now() + 3_600_000),
};
await recordProviderLogout(core, { ...logout, remoteAddress: "192.0.2.7" }, { requestId: "r" });

/** Each is refused, and how is not what these tests are about. */
const refusals = {
  "workload.refuse": (remoteAddress: string) =>
    exchange("nonsense", { remoteAddress, requestId: "r" }),
  "scim.refuse": (remoteAddress: string) =>
    authenticate("wrong", { remoteAddress, requestId: "r" }),
  "operator_session.refuse": (remoteAddress: string) =>
    redeemCode(core, redemption, { remoteAddress, requestId: "r" }),
  "operator.sign_out": (remoteAddress: string) =>
    recordProviderLogout(core, { ...logout, subject: "2", remoteAddress }, { requestId: "r" }),
  "operator.sign_in": (remoteAddress: string) =>
    recordSignIn(
      core,
      null,
      {
        outcome: "failure",
        reasonCode: "not_in_directory",
        remoteAddress,
        userId: null,
        subject: "1",
      },
      { requestId: "r" },
    ),
};

it.each(Object.entries(refusals))(
  "bounds the audit events of a flood of refusals by %s, and counts each",
  async (action, refuse) => {
    // The last three have a transaction for each refusal.
    const [many, rounds] =
      action === "workload.refuse" || action === "scim.refuse" ? [500, 4] : [130, 2];
    const addresses = Array.from({ length: many }, (_, at) => `192.0.${at >> 8}.${at & 255}`);
    for (let round = 0; round < rounds; round++)
      await Promise.all(
        addresses.map((address) => Promise.resolve(refuse(address)).catch(() => undefined)),
      );
    const find = () => sql<{ details: { count?: number } }[]>`
      select details from audit_event where action = ${action}`;
    const first = (await find()).length;
    expect(first).toBeGreaterThan(100);
    // Transactions that begin counts at once may exceed the bound by one each.
    expect(first).toBeLessThan(110);
    await test.clock.advance(2 * 60_000);
    await flushRefusals(core);
    const events = await find();
    expect(events).toHaveLength(2 * first);
    expect(events.reduce((sum, { details }) => sum + (details.count ?? 0), 0)).toBe(many * rounds);
    expect(await flushRefusals(core)).toBe(0);
  },
);
