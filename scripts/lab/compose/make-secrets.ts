import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemEntropy } from "#kit/entropy.ts";
import { createLabPki, labServerNames } from "../ca/pki.ts";
import { providerClient } from "../identity-provider.ts";
import { secretsFolder, serviceNames } from "./lab-files.ts";

/** Creates the lab's CAs, certificates and random secrets, unless they exist: `down` and `up` keep the database's password. */
export const makeSecrets = async (): Promise<void> => {
  const { created } = await createLabPki({
    dir: "/lab/pki",
    serverNames: [...labServerNames, ...serviceNames],
  });
  await mkdir(secretsFolder, { recursive: true, mode: 0o700 });
  const random = () => systemEntropy.bytes(32).toHex();
  const password = random();
  const webPassword = random();
  const secrets = {
    "database-password": password,
    "web-database-password": webPassword,
    "database-url": `postgres://svc:${password}@database:5432/svc`,
    "web-database-url": `postgres://svc_web:${webPassword}@database:5432/svc`,
    "auth-token-secret": random(),
    "ops-bearer-token": random(),
    "session-secret": random(),
    "idp-client-secret": providerClient.clientSecret,
  };
  if (created)
    for (const [name, value] of Object.entries(secrets))
      await writeFile(join(secretsFolder, name), value, { mode: 0o600 });
  console.log(created ? "the lab's secrets are made" : "the lab's secrets exist");
};
