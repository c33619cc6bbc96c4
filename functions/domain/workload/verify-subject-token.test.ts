import { afterAll, afterEach, expect, it, vi } from "vitest";
import { systemClock } from "../../../kit/clock.ts";
import { coreAudience, startKubernetesIssuer } from "../../../tests/support/kubernetes-issuer.ts";
import { createVerifySubjectToken } from "./verify-subject-token.ts";

const cluster = await startKubernetesIssuer();
afterAll(() => cluster.close());
afterEach(() => vi.useRealTimers());

/** Lets the system clock jump: jose keeps keys by it. */
const advance = (seconds: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + seconds * 1000 });

it("reads keys that an issuer has rotated after half a minute, and then rejects the earlier key", async () => {
  const issuer = { issuer: cluster.url, audience: coreAudience, jwksUri: null, subjects: [] };
  const verify = createVerifySubjectToken([issuer], { clock: systemClock });
  const signed = () => cluster.sign({}, Date.now());
  const before = await signed();
  expect(await verify(before)).toMatchObject({ subject: "system:serviceaccount:fleet-collector:collector" });

  await cluster.rotate();
  await expect(verify(await signed())).rejects.toMatchObject({ reason: "signature_invalid" });
  advance(31);
  expect(await verify(await signed())).toMatchObject({ issuer });
  await expect(verify(before)).rejects.toMatchObject({ reason: "signature_invalid" });

  cluster.isDown = true;
  await expect(verify(before)).rejects.toMatchObject({ reason: "signature_invalid" });
  expect(await verify(await signed())).toMatchObject({ issuer });
  advance(601);
  await expect(verify(await signed())).rejects.toMatchObject({ name: "IssuerUnavailable" });
  cluster.isDown = false;
  expect(await verify(await signed())).toMatchObject({ issuer });
});
