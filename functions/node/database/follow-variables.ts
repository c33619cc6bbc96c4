import type { CoreConfig } from "#functions/config/core-config.ts";
import type { VariableFile } from "#kit/env.ts";
import type { Secret } from "#kit/secret.ts";
import { loadFiles, type ReloadedFiles, type ReloadOptions } from "../reload-files.ts";
import { createCoreServers, type DatabaseConfig, type NamedServers } from "./database-servers.ts";

type FileLog = ReloadOptions<unknown>["log"];

/**
 * Creates the servers of a program's database, and follows the files of its variables: each `Secret` takes the newest valid value of its file,
 * and new connections to the database the newest URL that a server accepts. Throws `ConfigError`.
 */
export const followVariables = async (
  config: DatabaseConfig & Pick<CoreConfig, "files">,
  log: FileLog,
) => {
  const servers = createCoreServers(config, log);
  const databases = [...new Set([servers.requests, servers.sessions])];
  const isOfDatabase = ({ variable }: VariableFile) =>
    databases.some((each) => `${each.variable}_FILE` === variable);
  const followed: ReloadedFiles[] = [];
  for (const file of config.files)
    if (!isOfDatabase(file)) followed.push(await followSecret(file, log));
  for (const database of databases) followed.push(await followServers(database, config, log));
  return { servers, followed };
};

const followSecret = ({ variable, path, secret, read }: VariableFile, log: FileLog) =>
  loadFiles({
    name: variable,
    paths: () => [path],
    log,
    load: async () => secret.replaceBy(read()),
  });

/** Follows the file of a URL and those that the URL names for TLS. After a refused login, checks at once whether a new password has come. */
const followServers = async (
  { variable, servers }: NamedServers,
  { databaseUrl, databaseSessionUrl, files }: Parameters<typeof followVariables>[0],
  log: FileLog,
) => {
  const file = files.find((each) => each.variable === `${variable}_FILE`);
  const url = variable === "SVC_DATABASE_URL" ? databaseUrl : databaseSessionUrl;
  const followed = await loadFiles({
    name: file?.variable ?? variable,
    paths: () => [...(file ? [file.path] : []), ...servers.tlsPaths()],
    isSuspect: servers.isSuspect,
    log,
    load: async () => servers.use(((file?.read() ?? url) as Secret).reveal()),
  });
  servers.onFirstRefusal(() => void followed.check());
  return followed;
};
