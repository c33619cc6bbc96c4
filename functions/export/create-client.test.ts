import { readFileSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { issueBenchCredentials } from "#scripts/bench/support/collector-files.ts";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { startOtlpBackend } from "#tests/support/ingest/otlp-backend.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { parseExportConfig } from "../config/export-config.ts";
import { followVariables } from "../node/database/follow-variables.ts";
import { checkEach } from "../node/reload-files.ts";
import { createExportClient, type FollowedClient } from "./create-client.ts";

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});
const request = new TextEncoder().encode("a request");

it.each(["http/protobuf", "grpc"])(
  "uses replaced certificates over %s without losing a request",
  async (protocol) => {
    const folder = newFolder();
    const file = (name: string) => join(folder, name);
    const first = await createTestCa();
    const second = await createTestCa();
    const start = async (ca: typeof first) => {
      const server = await issueBenchCredentials(ca, { type: "ip", value: "127.0.0.1" });
      const backend = await startOtlpBackend({
        tls: { ...server, ca: ca.pem },
        ...(ports && { ports }),
      });
      open.push(backend);
      return backend;
    };
    const replace = async (ca: typeof first, names: readonly ("ca" | "cert" | "key")[]) => {
      const own = await issueBenchCredentials(ca, {
        type: "url",
        value: "https://fleet.test/export",
      });
      const texts = { ca: ca.pem, cert: own.cert, key: own.key };
      for (const name of names) await writeFile(file(name), texts[name], { mode: 0o600 });
    };
    let ports: readonly [number, number] | undefined;
    const before = await start(first);
    ports = [Number(new URL(before.httpUrl).port), Number(new URL(before.grpcUrl).port)];
    await replace(first, ["ca", "cert", "key"]);
    const log = createTestLog();
    const { config } = parseExportConfig(
      {
        SVC_DATABASE_URL: "postgres://localhost/x",
        SVC_EXPORT_ENDPOINT: protocol === "grpc" ? before.grpcUrl : before.httpUrl,
        SVC_EXPORT_PROTOCOL: protocol,
        SVC_EXPORT_CA_FILE: file("ca"),
        SVC_EXPORT_CLIENT_CERT_FILE: file("cert"),
        SVC_EXPORT_CLIENT_KEY_FILE: file("key"),
      },
      () => "",
    );
    const client: FollowedClient = await createExportClient(config, { log, clock: systemClock });
    open.push(client);
    const answered = Promise.withResolvers<void>();
    before.answer = () => answered.promise.then(() => "accept" as const);
    const underWay = client.send("logs", request);
    await expect.poll(() => before.calls.length).toBe(1);

    // Half of a pair: the old files stay in use.
    await replace(second, ["cert"]);
    await client.tls.check();
    expect(log.text()).toContain("cannot be used; the old ones are kept");
    await replace(second, ["ca", "cert", "key"]);
    await client.tls.check();
    answered.resolve();
    expect(await underWay).toMatchObject({ status: "accepted" });
    await before.close();
    open.splice(open.indexOf(before), 1);
    const after = await start(second);
    expect(await client.send("logs", request)).toMatchObject({ status: "accepted" });
    expect(after.accepted).toHaveLength(1);
  },
);

it.each(["http/protobuf", "grpc"])(
  "uses a rotated token over %s without a restart, and logs none",
  async (protocol) => {
    const folder = newFolder();
    const path = join(folder, "headers");
    const rotate = async (token: string) => {
      await writeFile(`${path}.new`, `authorization=${token}\n`);
      await rename(`${path}.new`, path);
    };
    const backend = await startOtlpBackend();
    open.push(backend);
    let valid = "token-1";
    backend.answer = ({ headers }) =>
      headers.authorization === valid ? "accept" : { http: httpStatus, grpc: 16 };
    const httpStatus = protocol === "grpc" ? 200 : 401;
    const tokens = () => backend.calls.splice(0).map(({ headers }) => headers.authorization);
    await rotate("token-1");
    const log = createTestLog();
    const { config } = parseExportConfig(
      {
        SVC_DATABASE_URL: "postgres://localhost/x",
        SVC_EXPORT_ENDPOINT: protocol === "grpc" ? backend.grpcUrl : backend.httpUrl,
        SVC_EXPORT_PROTOCOL: protocol,
        SVC_EXPORT_HEADERS_FILE: path,
      },
      (name) => readFileSync(name, "utf8"),
    );
    const { followed } = await followVariables(config, log);
    const client = await createExportClient(config, { log, clock: systemClock, followed });
    open.push(client);
    const send = async () => (await client.send("logs", request)).status;

    // The backend is first: the file is checked when it refuses, by each of the requests under way.
    expect(await send()).toBe("accepted");
    valid = "token-2";
    expect(await send()).toBe("refused");
    expect(tokens()).toEqual(["token-1", "token-1"]);
    await rotate("token-2");
    expect(await Promise.all([send(), send()])).toEqual(["accepted", "accepted"]);
    // The second may find the new token that the first has read.
    expect(tokens().filter((token) => token === "token-2")).toHaveLength(2);

    // The file is first: it is used without a request that fails.
    await rotate("token-3");
    await checkEach(followed);
    valid = "token-3";
    expect(await send()).toBe("accepted");
    expect(tokens()).toEqual(["token-3"]);

    // A file that cannot be used leaves the old headers, and is logged once for each fault.
    await rm(path);
    for (let check = 0; check < 3; check++) await checkEach(followed);
    await writeFile(path, "token-4");
    for (let check = 0; check < 3; check++) await checkEach(followed);
    expect(await send()).toBe("accepted");
    const faults = log.lines.filter(({ level }) => level === "warn");
    expect(faults.map(({ fields }) => fields)).toMatchObject([
      {
        files: "SVC_EXPORT_HEADERS_FILE",
        err: {
          faults: [{ variable: "SVC_EXPORT_HEADERS_FILE", message: "the file cannot be read" }],
        },
      },
      {
        files: "SVC_EXPORT_HEADERS_FILE",
        err: { faults: [{ variable: "SVC_EXPORT_HEADERS_FILE" }] },
      },
    ]);
    await rotate("token-5");
    await checkEach(followed);
    valid = "token-5";
    expect(await send()).toBe("accepted");
    expect(log.text()).not.toContain("token-");
  },
);
