import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { compressionGzip } from "@connectrpc/connect-node";

const compress = promisify(gzip);

/** gzip at its fastest level: of telemetry it leaves about a tenth more than the default level, at a third of the time. */
export const fastGzip: typeof compressionGzip = {
  ...compressionGzip,
  compress: (bytes) => compress(bytes, { level: constants.Z_BEST_SPEED }),
};
