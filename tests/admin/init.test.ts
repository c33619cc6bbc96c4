import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { useTestWeb } from "../support/web.ts";
import { createAdminUser, failsWith } from "./support/admin.ts";

const ingest = {
  SVC_INGEST_GRPC_ADDR: "0.0.0.0:8443",
  SVC_INGEST_SERVER_CERT_FILE: "/etc/svc/ingest.crt",
  SVC_INGEST_SERVER_KEY_FILE: "/etc/svc/ingest.key",
  SVC_INGEST_CLIENT_CA_FILE: "/etc/svc/ca.crt",
};
const advertised = {
  SVC_ADVERTISED_CORE_URL: "https://core.example.com/",
  SVC_ADVERTISED_INGEST_ADDR: "core.example.com:8443",
};
const [web, unfinished] = await Promise.all([
  useTestWeb({ core: { env: { ...ingest, ...advertised } } }),
  useTestWeb(),
]);
const scratch = createAdminUser();
const tokenFile = join(scratch.home, "bootstrap.token");

/** A person with a token of core in a script. */
const scriptOf = async (at: typeof web, name: "admin" | "auditor") => {
  const file = join(scratch.home, `${name}-${new URL(at.origin).port}`);
  writeFileSync(file, await at.core.bridgeToken(name));
  return createAdminUser({ env: { SVC_ADMIN_URL: at.origin, SVC_ADMIN_TOKEN_FILE: file } });
};

it("creates a policy and a token, prints the host's command, and repeats without a second of either", async () => {
  const admin = await scriptOf(web, "admin");
  const init = (...args: string[]) =>
    admin.run("init", "--token-file", tokenFile, "--ca-bundle", "/etc/core ca.pem", ...args);

  const unanswered = await init();
  expect(unanswered).toMatchObject({ exitCode: 2, out: "" });
  expect(unanswered.err).toContain(
    "No enrollment policy exists. Create first hosts, for identities spiffe://127.0.0.1/host/",
  );
  expect(existsSync(tokenFile)).toBe(false);

  const first = await init("--yes", "--prefix", "spiffe://example.com/host/");
  expect(first.exitCode).toBe(0);
  expect(first.out).toBe(`svc-collector enroll \\
  --core https://core.example.com \\
  --ingest core.example.com:8443 \\
  --identity-prefix spiffe://example.com/host/ \\
  --device-id "$(hostname)" \\
  --ca-bundle '/etc/core ca.pem' \\
  --token-file ${tokenFile}
`);
  const token = readFileSync(tokenFile, "utf8").trim();
  expect(token).toMatch(/^svcbt_\w+$/);
  expect(statSync(tokenFile).mode & 0o777).toBe(0o600);
  expect(first.out + first.err).not.toContain(token);
  expect(first.err).toMatch(
    /^ok {7}http.* is ready\nok {7}signed in as .*\nok {7}directory: [\s\S]*created policy first hosts/,
  );

  expect(first.err).toContain(
    `--token-stdin <${tokenFile},\nand then sudo systemctl start svc-collector`,
  );

  const second = await init("--yes");
  expect(second).toMatchObject({ exitCode: 0, out: first.out });
  expect(second.err).toMatch(/policy first hosts \(.*\) exists\n.*holds an active token/);
  expect(readFileSync(tokenFile, "utf8").trim()).toBe(token);
  expect(await admin.json`policies list`).toHaveLength(1);

  await web.clock.advance(3_601_000);
  const expired = await (await scriptOf(web, "admin"))
    .run`init --yes --token-file ${tokenFile} -o json`;
  expect(expired.err).toContain("created a token for an hour");
  expect(readFileSync(tokenFile, "utf8").trim()).not.toBe(token);
  expect(JSON.parse(expired.out)).toMatchObject({
    token_file: tokenFile,
    command: expect.stringContaining("--core"),
  });
});

it("overwrites no file but one of a bootstrap token", async () => {
  const other = join(scratch.home, "notes.txt");
  writeFileSync(other, "important\n");
  const result = await (await scriptOf(web, "admin")).run`init --yes --token-file ${other}`;
  expect(result).toMatchObject({ exitCode: 2, out: "" });
  expect(readFileSync(other, "utf8")).toBe("important\n");
});

it("stops at the step that the configuration lacks, and says what to set", async () => {
  const admin = await scriptOf(unfinished, "admin");
  const result = await admin.run`init --yes`;
  expect(result).toMatchObject({ exitCode: 1, out: "" });
  expect(result.err).toContain(
    "ingest: no ingest listener is configured; set SVC_INGEST_GRPC_ADDR of core",
  );
});

it("asks nobody without the scope admin to go on, and names a fleet that does not answer", async () => {
  const auditor = await scriptOf(web, "auditor");
  expect(await auditor.run`init --yes`).toEqual(
    failsWith(1, "grace@example.test lacks the scope admin: join the directory's group svc-admin"),
  );
  expect(await auditor.run`init --url http://127.0.0.1:9`).toMatchObject({ exitCode: 4 });
  expect(await createAdminUser().run`init --url ${web.origin}`).toMatchObject({ exitCode: 3 });
});
