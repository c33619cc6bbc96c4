import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "#kit/clock.ts";
import { execute } from "#scripts/execute.ts";
import { connectNodeDatabase } from "#scripts/postgres/connect-node-database.ts";
import { awaitPeople } from "../await-people.ts";
import { withSources } from "../enroll-collector.ts";
import { createOperatorApi, createPolicyWithToken } from "../operator-api.ts";
import { labPki, ports, secretsFolder } from "./lab-files.ts";

const identityPrefix = "spiffe://fleet.example.test/host/";
const configFile = "/etc/svc-collector/collector.yaml";
const tokenFile = "/tmp/token";

/** Enrolls the host `lab` with a token that an admin creates, and gives its collector sources that need no application. */
export const enroll = async (): Promise<void> => {
  const secret = (name: string) => readFile(join(secretsFolder, name), "utf8");
  const url = await secret("database-url");
  const database = connectNodeDatabase({ url, connectionsMax: 1 });
  const userIds = await awaitPeople(database.sql, {
    clock: systemClock,
    signal: new AbortController().signal,
  });
  await database.close();
  const api = createOperatorApi("http://core:8080", await secret("auth-token-secret"), userIds);
  const policy = { name: "lab hosts", allowed_identity_prefixes: [identityPrefix] };
  const { token } = await createPolicyWithToken(api, policy, { ttl_seconds: 600, max_uses: 1 });
  await writeFile(tokenFile, token, { mode: 0o600 });
  await execute(process.execPath, [
    "/opt/svc/dist/svc-collector/main.mjs",
    "enroll",
    "--core",
    `https://edge:${ports.edge}`,
    "--ingest",
    "core:8443",
    "--token-file",
    tokenFile,
    "--device-id",
    "lab",
    "--identity-prefix",
    identityPrefix,
    "--ca-bundle",
    labPki.serverCaFile,
  ]);
  await rm(tokenFile);
  const sources = [
    { type: "otlp", grpc: { listen: "0.0.0.0:4317" }, http: { listen: "0.0.0.0:4318" } },
    { type: "host_metrics", interval_seconds: 10 },
  ];
  await writeFile(
    configFile,
    withSources(await readFile(configFile, "utf8"), sources, { env: "lab" }),
  );
  console.log("the host `lab` is enrolled");
};
