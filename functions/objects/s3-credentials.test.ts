import { expect, it } from "vitest";
import { minuteMs } from "#kit/clock.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { ObjectStoreUnavailable } from "./object-store.ts";
import type { SendHttp } from "./s3-calls.ts";
import { createWebIdentityKeys } from "./s3-credentials.ts";

const start = () => {
  const clock = createTestClock();
  const forms: string[] = [];
  let isAvailable = true;
  const send: SendHttp = async ({ body }) => {
    forms.push(new TextDecoder().decode(body?.[0]));
    const ends = clock.iso(60 * minuteMs);
    const text = isAvailable
      ? `<Credentials><AccessKeyId>key-${forms.length}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken><Expiration>${ends}</Expiration></Credentials>`
      : "<Error><Code>AccessDenied</Code></Error>";
    const status = isAvailable ? 200 : 403;
    return { status, header: () => undefined, body: [new TextEncoder().encode(text)] };
  };
  const identity = {
    roleArn: "arn:aws:iam::1:role/core",
    url: "https://sts.test/",
    readToken: () => `token ${forms.length}`,
  };
  return {
    clock,
    forms,
    keys: createWebIdentityKeys(identity, { send, clock }),
    fail: (fails: boolean) => {
      isAvailable = !fails;
    },
  };
};

it("exchanges the newest token for a key, and uses that until five minutes before its end", async () => {
  const { clock, forms, keys } = start();
  const [key, same] = await Promise.all([keys.current(), keys.current()]);
  expect(key).toEqual({ accessKeyId: "key-1", secretAccessKey: "secret", sessionToken: "token" });
  expect(same).toBe(key);
  expect(Object.fromEntries(new URLSearchParams(forms[0]))).toEqual({
    Action: "AssumeRoleWithWebIdentity",
    Version: "2011-06-15",
    RoleArn: "arn:aws:iam::1:role/core",
    RoleSessionName: "svc-server",
    WebIdentityToken: "token 0",
  });
  await clock.advance(54 * minuteMs);
  expect(await keys.current()).toBe(key);
  await clock.advance(2 * minuteMs);
  expect((await keys.current()).accessKeyId).toBe("key-2");
  expect(forms[1]).toContain("token+1");
});

it("keeps a key that is valid while the token service fails, and no other", async () => {
  const { clock, keys, fail } = start();
  const key = await keys.current();
  fail(true);
  await clock.advance(58 * minuteMs);
  expect(await keys.current()).toBe(key);
  await clock.advance(3 * minuteMs);
  await expect(keys.current()).rejects.toThrow(ObjectStoreUnavailable);
  fail(false);
  expect((await keys.current()).accessKeyId).toBe("key-4");
});

it("replaces a key that the store rejects", async () => {
  const { keys } = start();
  const key = await keys.current();
  keys.reject({ ...key });
  expect(await keys.current()).toBe(key);
  keys.reject(key);
  expect((await keys.current()).accessKeyId).toBe("key-2");
});
