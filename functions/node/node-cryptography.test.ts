import { generateKeyPairSync, sign } from "node:crypto";
import { expect, it } from "vitest";
import { createNodeCryptography } from "./node-cryptography.ts";

it("createNodeCryptography verifies a few signatures on the event loop, and most of a crowd in the thread pool", async () => {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const spki = new Uint8Array(publicKey.export({ format: "der", type: "spki" }));
  const data = new Uint8Array(100);
  const check = {
    spki,
    algorithm: "ecdsa-sha256",
    data,
    signature: sign("sha256", data, privateKey),
  } as const;
  const { verify } = createNodeCryptography({ pooledMax: 1_000 });
  const results = Array.from({ length: 1_000 }, () => verify(check));
  expect(results[0]).toBe(true);
  expect(results.filter((result) => result instanceof Promise).length).toBeGreaterThan(700);
  expect(new Set(await Promise.all(results))).toEqual(new Set([true]));
});
