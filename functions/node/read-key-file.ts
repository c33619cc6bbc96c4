import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";

/**
 * The contents of a private key file. Refused with an `Error` that names no contents if the file is not regular, or if group or
 * world may read, write or execute it: decided on the file that was opened (fstat), so that neither a symlink nor a swap between
 * check and read helps.
 */
export const readKeyFile = (path: string): Buffer => {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer for ever.
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const status = fstatSync(descriptor);
    if (!status.isFile()) throw new Error("the key file is not a regular file");
    if ((status.mode & 0o077) !== 0) throw new Error("the key file is open to group or world; chmod it to 0600");
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
};
