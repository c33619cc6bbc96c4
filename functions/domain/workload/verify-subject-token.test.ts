import { afterAll, expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { coreAudience, startKubernetesIssuer } from "#tests/support/access/kubernetes-issuer.ts";
import { createVerifySubjectToken } from "./verify-subject-token.ts";

const cluster = await startKubernetesIssuer();
afterAll(() => cluster.close());

it("reads keys that an issuer has rotated after half a minute, and then rejects the earlier key", async () => {
  const issuer = { issuer: cluster.url, audience: coreAudience, jwksUri: null, subjects: [] };
  const clock = createTestClock();
  const verify = createVerifySubjectToken(() => [issuer], { clock });
  const signed = () => cluster.signPod({ ttlSeconds: 3600 }, clock.now());
  const before = await signed();
  expect(await verify(before)).toMatchObject({
    subject: "system:serviceaccount:fleet-collector:collector",
  });

  await cluster.rotate();
  await expect(verify(await signed())).rejects.toMatchObject({ reason: "signature_invalid" });
  await clock.advance(31_000);
  expect(await verify(await signed())).toMatchObject({ issuer });
  await expect(verify(before)).rejects.toMatchObject({ reason: "signature_invalid" });

  cluster.isDown = true;
  await expect(verify(before)).rejects.toMatchObject({ reason: "signature_invalid" });
  expect(await verify(await signed())).toMatchObject({ issuer });
  await clock.advance(601_000);
  await expect(verify(await signed())).rejects.toMatchObject({ name: "IssuerUnavailable" });
  cluster.isDown = false;
  expect(await verify(await signed())).toMatchObject({ issuer });

  // The clock was two hours ahead, and is right again.
  clock.set(clock.now() - 7_200_000);
  cluster.keysPath = "/moved";
  await cluster.rotate();
  await clock.advance(31_000);
  expect(await verify(await signed())).toMatchObject({ issuer });
});
