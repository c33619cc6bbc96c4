import { resolve } from "node:path";

import { execute } from "../execute.ts";

/** The client is a package of its own, because its generator needs a TypeScript with a JavaScript API. */
const folder = "client";

/** Writes the generated part of the TypeScript client, from the committed `proto/openapi.json`, to `output`. */
export const generateClient = async (output = `${folder}/gen`): Promise<void> => {
  await execute("bun", ["install", "--frozen-lockfile", "--silent"], { cwd: folder });
  await execute(
    process.execPath,
    ["node_modules/@hey-api/openapi-ts/bin/run.js", "-f", "openapi-ts.config.mjs"],
    {
      cwd: folder,
      env: { ...process.env, CI: "true", CLIENT_GEN_FOLDER: resolve(output) },
    },
  );
};
