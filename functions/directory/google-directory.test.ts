import { readFile } from "node:fs/promises";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import {
  adminGroup,
  auditorGroup,
  directoryDomain,
  usualDirectory,
} from "#scripts/lab/directory-people.ts";
import { people } from "#scripts/lab/people.ts";
import { type PlannedFault, startFaultyDirectory } from "#tests/fakes/faulty-directory.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { type GoogleDirectoryOptions, readGoogleDirectory } from "./google-directory.ts";
import { parseServiceAccount } from "./service-account.ts";

const folder = newFolder();
const directory = await startFaultyDirectory({ pageSize: 2 });
const account = parseServiceAccount(await readFile(await directory.writeKeyFile(folder), "utf8"));
afterAll(() => directory.close());
afterEach(() => {
  directory.fail();
  directory.set(usualDirectory);
});

const read = (changes: Partial<GoogleDirectoryOptions> = {}) =>
  readGoogleDirectory({
    account,
    delegateEmail: "root@example.test",
    domain: directoryDomain,
    apiUrl: directory.url,
    signal: new AbortController().signal,
    ...changes,
  });
const faultWith = async (fault: PlannedFault, changes: Partial<GoogleDirectoryOptions> = {}) => {
  directory.fail(fault);
  return read(changes).then(
    () => expect.fail("it was read"),
    (error: unknown) => error,
  );
};

describe("reading the directory", () => {
  it("returns every user of every page, and the members of both groups by id", async () => {
    const before = directory.calls.length;
    const { users, admins, auditors } = await read();
    expect(new Set(users.map(({ id }) => id))).toEqual(
      new Set(Object.values(people).map(({ subject }) => subject)),
    );
    expect(users.find(({ id }) => id === people.admin.subject)).toEqual({
      id: people.admin.subject,
      primaryEmail: "ada@example.test",
      displayName: "Ada Lovelace",
      suspended: false,
      archived: false,
    });
    expect([admins, auditors]).toEqual([
      new Set([people.admin.subject]),
      new Set([people.auditor.subject]),
    ]);
    const calls = directory.calls.slice(before).map((call) => call.split("?")[0]);
    expect(calls).toEqual([
      "POST /token",
      "GET /admin/directory/v1/users",
      "GET /admin/directory/v1/users",
      `GET /admin/directory/v1/groups/${encodeURIComponent(adminGroup)}/members`,
      `GET /admin/directory/v1/groups/${encodeURIComponent(auditorGroup)}/members`,
    ]);
  });

  it("includes members of nested groups, even in a cycle, and never a group as a person", async () => {
    directory.set({
      groups: [
        { email: adminGroup, members: ["on-call@example.test"] },
        {
          email: "on-call@example.test",
          members: [people.reader.subject, people.admin.subject, adminGroup, "outsider"],
        },
        { email: auditorGroup, members: [] },
      ],
    });
    const { admins, auditors } = await read();
    expect(admins).toEqual(new Set([people.reader.subject, people.admin.subject, "outsider"]));
    expect(auditors).toEqual(new Set());
  });

  it("reports suspended and archived users, and no alias as a user", async () => {
    directory.set({
      users: [
        { id: "1", primaryEmail: "a@example.test", suspended: true, aliases: ["b@example.test"] },
        { id: "2", primaryEmail: "c@example.test", archived: true },
      ],
    });
    expect((await read()).users).toMatchObject([
      { id: "1", primaryEmail: "a@example.test", suspended: true, archived: false },
      { id: "2", primaryEmail: "c@example.test", suspended: false, archived: true },
    ]);
  });

  it("prefixes the API's base URL to the path, and keeps the base's own path", async () => {
    await expect(read({ apiUrl: `${directory.url}/proxy` })).rejects.toMatchObject({
      code: "answer_malformed",
    });
    expect(directory.calls.at(-1)).toContain("GET /proxy/admin/directory/v1/users?");
  });

  it("Y3: a group that does not exist is null, and the other is read", async () => {
    directory.set({ groups: usualDirectory.groups.filter(({ email }) => email !== adminGroup) });
    expect(await read()).toMatchObject({
      admins: null,
      auditors: new Set([people.auditor.subject]),
    });
  });
});

describe("a read that fails", () => {
  const users = { on: "users" } as const;
  const admins = { on: "members", group: adminGroup } as const;
  const page = (other: string) =>
    `{"access_token":"token","kind":"admin#directory#users","other":${other}}`;
  it.each<[string, PlannedFault, string]>([
    ["403 of users", { ...users, how: { status: 403, reason: "forbidden" } }, "access_denied"],
    ["401 of users", { ...users, how: { status: 401 } }, "access_denied"],
    ["404 of users", { ...users, how: { status: 404 } }, "answer_malformed"],
    ["429", { ...users, how: { status: 429 } }, "rate_limited"],
    [
      "a limit that comes as 403",
      { ...users, how: { status: 403, reason: "userRateLimitExceeded" } },
      "rate_limited",
    ],
    ["500", { ...users, how: { status: 500 } }, "directory_unavailable"],
    ["503 of page 2", { ...users, page: 2, how: { status: 503 } }, "directory_unavailable"],
    ["a truncated page", { ...users, how: "truncated" }, "answer_malformed"],
    ["a truncated page 2", { ...users, page: 2, how: "truncated" }, "answer_malformed"],
    ["an object that is no page", { ...users, page: 2, how: "empty" }, "answer_malformed"],
    [
      "a page of too many values",
      { ...users, how: { text: page(`[${"{},".repeat(300_000)}{}]`) } },
      "answer_malformed",
    ],
    [
      "a page nested too deeply",
      { ...users, how: { text: page("[".repeat(40) + "]".repeat(40)) } },
      "answer_malformed",
    ],
    [
      "a page of 5 MiB",
      { ...users, how: { text: page(`"${"x".repeat(5 * 1024 * 1024)}"`) } },
      "answer_malformed",
    ],
    [
      "a connection that ends in mid-page",
      { ...users, page: 2, how: "cut" },
      "directory_unreachable",
    ],
    ["403 of a group", { ...admins, how: { status: 403 } }, "access_denied"],
    ["503 of a group", { ...admins, how: { status: 503 } }, "directory_unavailable"],
    ["a truncated group", { ...admins, how: "truncated" }, "answer_malformed"],
    ["the token endpoint's 503", { on: "token", how: { status: 503 } }, "directory_unavailable"],
    [
      "a token of too many values",
      { on: "token", how: { text: page(`[${"{},".repeat(300_000)}{}]`) } },
      "answer_malformed",
    ],
    ["a token that is not a token", { on: "token", how: "truncated" }, "answer_malformed"],
  ])("Y1: %s returns no snapshot, and is not retried", async (_, fault, code) => {
    const before = directory.calls.length;
    expect(await faultWith(fault)).toMatchObject({ code });
    const last = directory.calls.at(-1);
    expect(directory.calls.slice(before).filter((call) => call === last).length).toBe(1);
  });

  it("Y3: a group that disappears at its second page is a failure, not a missing group", async () => {
    directory.set({
      groups: [{ email: adminGroup, members: Object.values(people).map(({ subject }) => subject) }],
    });
    expect(await faultWith({ ...admins, page: 2, how: { status: 404 } })).toMatchObject({
      code: "answer_malformed",
    });
  });

  it("waits for a slow page, times out without a response, and stops at once on abort", async () => {
    directory.fail({ ...users, page: 2, how: { delayMs: 60 } });
    expect((await read()).users.length).toBe(3);
    expect(await faultWith({ ...users, how: { delayMs: 5000 } }, { timeoutMs: 50 })).toMatchObject({
      code: "directory_unreachable",
    });
    const silent: PlannedFault = { ...users, page: 2, how: "silent" };
    expect(await faultWith(silent, { timeoutMs: 50 })).toMatchObject({
      code: "directory_unreachable",
    });
    const stop = new AbortController();
    const ended = faultWith(silent, { signal: stop.signal });
    stop.abort();
    expect(await ended).toMatchObject({ code: "directory_unreachable" });
  });

  it("rejects another delegate, key and audience, and logs neither", async () => {
    const other = parseServiceAccount(
      await readFile(
        await (await startStranger()).writeKeyFile(folder, { token_uri: account.tokenUri }),
        "utf8",
      ),
    );
    for (const changes of [{ delegateEmail: "eve@example.test" }, { account: other }]) {
      const fault = await faultWith({ on: "users", page: 99, how: "empty" }, changes);
      expect(fault).toMatchObject({
        code: "token_refused",
        message: "the token endpoint: 400 invalid_grant",
      });
    }
    const broken = {
      ...account,
      privateKeyPem: "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n",
    };
    await expect(read({ account: broken })).rejects.toMatchObject({
      code: "key_file_unusable",
      message: "SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: its private key cannot sign",
    });
    const closed = { ...account, tokenUri: "http://127.0.0.1:1/token" };
    expect(
      await faultWith({ on: "users", page: 99, how: "empty" }, { account: closed }),
    ).toMatchObject({
      code: "directory_unreachable",
    });
  });

  const startStranger = async () => {
    const stranger = await startFaultyDirectory();
    await stranger.close();
    return stranger;
  };
});

it.each([
  ["", "is not JSON"],
  ["{}", "type, client_email, private_key, token_uri"],
  [
    JSON.stringify({
      type: "authorized_user",
      client_email: "a",
      private_key: "hunter2",
      token_uri: "x",
    }),
    "private_key",
  ],
  [
    JSON.stringify({
      type: "service_account",
      client_email: "a@b.test",
      private_key: "-----BEGIN PRIVATE KEY-----",
      token_uri: "http://tokens.example.test/token",
    }),
    "key: token_uri",
  ],
])("parseServiceAccount refuses %j", (contents, message) => {
  expect(() => parseServiceAccount(contents)).toThrow(message);
  expect(() => parseServiceAccount(contents)).not.toThrow("hunter2");
});
