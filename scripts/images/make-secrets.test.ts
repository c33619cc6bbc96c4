import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { execute } from "../execute.ts";

const script = fileURLToPath(new URL("../../packaging/compose/make-secrets.sh", import.meta.url));
/** The folder in which the command of docs/compose.md runs. */
let dir: string;

const make = (password?: string) =>
  execute("sh", [script, join(dir, "secrets")], {
    cwd: dir,
    env: {
      PATH: process.env.PATH ?? "",
      ...(password === undefined ? {} : { POSTGRES_PASSWORD: password }),
    },
  }).then(
    ({ stdout, stderr }) => ({ code: 0, output: stdout, errors: stderr }),
    ({ code, stderr }) => ({ code: Number(code), output: String(stderr), errors: String(stderr) }),
  );
const read = (name: string) => readFile(join(dir, "secrets", name), "utf8");

beforeEach(async () => {
  dir = newFolder();
});

it("makes random secrets that only their user can read, and lists the files that are missing", async () => {
  const { code, output } = await make();
  expect(code).toBe(0);
  for (const name of [
    "idp-client-secret",
    "service-account.json",
    "ingest.key",
    "enrollment-ca.key",
  ])
    expect(output).toContain(`/secrets/${name}`);
  const names = await readdir(join(dir, "secrets"));
  for (const name of names)
    expect((await stat(join(dir, "secrets", name))).mode & 0o777).toBe(0o600);
  const random = [
    "database-password",
    "web-database-password",
    "auth-token-secret",
    "ops-bearer-token",
    "session-secret",
  ];
  const values = await Promise.all(random.map(read));
  for (const value of values) expect(value).toMatch(/^[0-9a-f]{64}$/);
  expect(new Set(values).size).toBe(random.length);
  expect(await read("database-url")).toBe(`postgres://svc:${values[0]}@database:5432/svc`);
  expect(await read("web-database-url")).toBe(`postgres://svc_web:${values[1]}@database:5432/svc`);
});

it("protects files that were added, when it runs again", async () => {
  await make();
  const path = join(dir, "secrets", "ingest.key");
  await writeFile(path, "a key", { mode: 0o644 });
  const { output } = await make();
  expect(output).not.toContain("ingest.key");
  const { mode, uid } = await stat(path);
  expect([mode & 0o777, uid]).toEqual([
    0o600,
    process.getuid?.() === 0 ? 1000 : process.getuid?.(),
  ]);
});

it.each([
  ["a folder", (path: string) => mkdir(path, { recursive: true })],
  ["an empty file", (path: string) => writeFile(path, "")],
])("ends with 1 and says what to do when %s stands where a secret belongs", async (_, place) => {
  for (const name of ["database-password", "session-secret"]) {
    await make();
    await rm(join(dir, "secrets", name));
    await place(join(dir, "secrets", name));
    expect(await make()).toMatchObject({
      code: 1,
      errors: expect.stringContaining(`/secrets/${name} must be a file`),
    });
    await rm(join(dir, "secrets", name), { recursive: true });
  }
});

it("lists a folder that stands where a file is to be added", async () => {
  await mkdir(join(dir, "secrets", "ingest.key"), { recursive: true });
  expect((await make()).output).toContain("/secrets/ingest.key");
});

it("accepts empty files of the services that a deployment does not use", async () => {
  await make();
  for (const name of ["service-account.json", "enrollment-ca.key", "enrollment-ca.crt"])
    await writeFile(join(dir, "secrets", name), "");
  const { output } = await make();
  for (const name of ["service-account.json", "enrollment-ca.key"])
    expect(output).not.toContain(name);
  expect(output).toContain("/secrets/enrollment-ca.crt");
});

it("never replaces a file", async () => {
  await make();
  const before = await read("database-password");
  expect((await make("another")).errors).toContain("POSTGRES_PASSWORD has no effect: ");
  expect(await read("database-password")).toBe(before);
});

it("takes POSTGRES_PASSWORD of .env in the folder of compose.yaml", async () => {
  await writeFile(join(dir, ".env"), "SVC_TENANT_ID=x\nPOSTGRES_PASSWORD='chosen-2'\n");
  expect((await make()).errors).toBe("");
  expect(await read("database-url")).toBe("postgres://svc:chosen-2@database:5432/svc");
});

it("takes POSTGRES_PASSWORD as the database's password, and rejects one that a URL cannot hold", async () => {
  expect(await make("a/b@c")).toMatchObject({
    code: 1,
    output: expect.stringContaining("POSTGRES_PASSWORD may hold"),
  });
  await make("chosen-1");
  expect(await read("database-url")).toBe("postgres://svc:chosen-1@database:5432/svc");
});
