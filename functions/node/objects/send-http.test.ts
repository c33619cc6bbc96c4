import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createS3Store } from "#functions/objects/s3-store.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { issueBenchCredentials } from "#scripts/bench/support/collector-files.ts";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { createS3Model } from "#tests/fakes/s3-model.ts";
import { newFolder, whenDone } from "#tests/support/new-folder.ts";
import { itKeepsObjects } from "#tests/support/object-store-laws.ts";
import { createSendHttp, hashParts } from "./send-http.ts";

const storeAt = (bucketUrl: string, caFile: string | null) =>
  createS3Store(
    { bucketUrl, prefix: "", region: "eu-1" },
    {
      send: createSendHttp(caFile),
      hash: hashParts,
      credentials: {
        current: async () => ({ accessKeyId: "key-1", secretAccessKey: "secret-1" }),
        reject: () => undefined,
      },
      clock: systemClock,
      entropy: systemEntropy,
    },
  );

describe("the laws, over HTTP", () => {
  itKeepsObjects(async () => {
    const server = await createS3Model(systemClock).listen();
    whenDone(server.close);
    return storeAt(server.bucketUrl, null);
  });
});

it("verifies the server by the CA file, as it is at the time of a connection", async () => {
  const ca = await createTestCa();
  const tls = await issueBenchCredentials(ca, { type: "ip", value: "127.0.0.1" });
  const model = createS3Model(systemClock);
  const server = await model.listen(tls);
  whenDone(server.close);
  const caFile = join(newFolder(), "ca.pem");
  writeFileSync(caFile, (await createTestCa({ name: "Other" })).pem);
  const send = createSendHttp(caFile);
  const { signal } = new AbortController();
  const request = { method: "GET", url: server.bucketUrl, headers: {}, signal } as const;
  await expect(send(request)).rejects.toThrow("unable to verify the first certificate");
  writeFileSync(caFile, ca.pem);
  expect((await send(request)).status).toBe(403);
  await expect(createSendHttp(null)(request)).rejects.toThrow("certificate");
});
