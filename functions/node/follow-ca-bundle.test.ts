import { hash } from "node:crypto";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, beforeEach, expect, it } from "vitest";
import { encodePem } from "#proto/pem.ts";
import {
  createTestCa,
  createTestKey,
  issueTestCertificate,
  serverExtensions,
  type TestCa,
  type TestKey,
} from "#scripts/lab/ca/test-pki.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { followCaBundle } from "./follow-ca-bundle.ts";

const clock = { now: () => Date.UTC(2026, 5, 1) };
const variable = "SVC_INGEST_CA_BUNDLE_FILE";

let root: TestCa;
let other: TestCa;
let leaf: string;
let ended: TestCa;
let many: string;
let key: TestKey;
beforeAll(async () => {
  root = await createTestCa({ name: "Root" });
  other = await createTestCa({ name: "Other" });
  ended = await createTestCa({ name: "Ended", notAfter: new Date("2026-05-01") });
  key = await createTestKey();
  leaf = await issueServer(root);
  const bundle = [];
  for (let n = 0; n < 150; n += 1)
    bundle.push((await createTestCa({ key: root.key, name: `Root ${n}` })).pem);
  many = bundle.join("");
});

/** Handshakes use the machine's clock. */
const issueServer = async (ca: TestCa) =>
  encodePem(
    await issueTestCertificate({
      ca,
      key,
      extensions: serverExtensions(),
      notBefore: new Date("2026-01-01"),
      notAfter: new Date("2035-01-01"),
    }),
    "CERTIFICATE",
  );

let dir: string;
beforeEach(() => {
  dir = newFolder();
});
const put = (contents: string, name = "bundle.pem") => {
  rmSync(join(dir, name), { recursive: true, force: true });
  writeFileSync(join(dir, name), contents);
};

const follow = async ({ withListener = true } = {}) => {
  const log = createTestLog();
  const tls = { cert: Buffer.from(leaf), key: Buffer.from(key.pem) };
  put(leaf, "server.pem");
  const listener = {
    current: () => ({ ...tls, ca: Buffer.from("") }),
    paths: [join(dir, "server.pem"), join(dir, "server.key")],
  };
  const files = await followCaBundle(
    { channel: "ingest", variable, path: join(dir, "bundle.pem") },
    { tls: withListener ? listener : null, clock, log },
  );
  return { ...files, log, tls };
};

const refused: Record<string, [fault: string, spoil: () => void]> = {
  "an empty file": ["holds no certificate of an authority", () => put("")],
  "10 MB": ["is larger than 1 MiB", () => put("x".repeat(10_000_000))],
  "a half-written file": ["a malformed PEM block", () => put((root.pem + other.pem).slice(0, -40))],
  "a directory": ["not a regular file", () => mkdirSync(removed())],
  "no file": ["cannot be read (ENOENT)", () => void removed()],
  "a server's certificate alone": ["holds no certificate of an authority", () => put(leaf)],
  "expired authorities alone": ["only authorities that have expired", () => put(ended.pem)],
  "64 KiB and more of authorities": ["more than 65536 bytes", () => put(many)],
  "another root than the listener's": ["does not verify the certificate", () => put(other.pem)],
  "a file that the group may write": ["chmod it", () => chmodSync(at(), 0o664)],
};
const at = () => join(dir, "bundle.pem");
const removed = () => {
  rmSync(at());
  return at();
};

it.each(Object.entries(refused))("keeps the bundle when its file becomes %s", async (_, row) => {
  const [fault, spoil] = row;
  put(root.pem);
  const files = await follow();
  expect([files.current()?.pem, files.fault()]).toEqual([root.pem, undefined]);
  spoil();
  await files.check();
  expect(files.fault()).toContain(`${variable}: `);
  expect(files.fault()).toContain(fault);
  expect(files.current()?.pem).toBe(root.pem);
  put(root.pem + other.pem);
  await files.check();
  expect([files.current()?.pem, files.fault()]).toEqual([root.pem + other.pem, undefined]);
});

it("starts without a valid file, names the fault, and takes the file once it is valid", async () => {
  const files = await follow({ withListener: false });
  expect([files.current(), files.fault()]).toEqual([null, `${variable}: cannot be read (ENOENT)`]);
  expect(files.log.lines).toMatchObject([{ level: "warn" }]);
  put(other.pem);
  await files.check();
  expect([files.current()?.pem, files.fault()]).toEqual([other.pem, undefined]);
});

it("takes the readable authorities alone, each once, in the order of the file", async () => {
  const unreadable = encodePem(new Uint8Array(40), "CERTIFICATE");
  put(`the roots\r\n${other.pem}${leaf}${unreadable}${root.pem}${ended.pem}${other.pem}`);
  const pem = other.pem + root.pem + ended.pem;
  expect((await follow()).current()).toEqual({ pem, sha256: hash("sha256", pem, "hex") });
});

it("takes a bundle by which hosts verify a listener that an intermediate has issued", async () => {
  const intermediate = await createTestCa({ name: "Intermediate", issuer: root });
  leaf = (await issueServer(intermediate)) + intermediate.pem;
  put(root.pem);
  const files = await follow();
  expect(files.fault()).toBeUndefined();
  // OpenSSL takes no chain that ends below a root.
  put(intermediate.pem);
  await files.check();
  expect(files.fault()).toContain("does not verify");
  leaf = await issueServer(root);
});

it("reports an unchanged bundle by which hosts reject the listener's new certificate", async () => {
  put(root.pem);
  const files = await follow();
  const next = await issueServer(other);
  put(next, "server.pem");
  // The listener takes the certificate once its key is there too.
  await files.check();
  files.tls.cert = Buffer.from(next);
  put("its key", "server.key");
  await files.check();
  expect(files.fault()).toContain("does not verify the certificate of the ingest listener");
  put(root.pem + other.pem);
  await files.check();
  expect(files.fault()).toBeUndefined();
});
