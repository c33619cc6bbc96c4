import { openDatabaseSocket } from "#functions/node/database/database-servers.ts";
import { connectDatabase, type DatabaseOptions } from "#functions/store/database/database.ts";

/** Connects to a database over sockets of Node. */
export const connectNodeDatabase = (options: DatabaseOptions) =>
  connectDatabase({ ...options, openSocket: openDatabaseSocket });
