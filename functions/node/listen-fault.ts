import { errorCode } from "../../kit/error-code.ts";

/** An address that cannot be listened on: not a fault of the configuration's form, since another process may let go of it. */
export class ListenFault extends Error {
  override readonly name = "ListenFault";
}

const words: Readonly<Record<string, string>> = {
  EADDRINUSE: "is in use by another process",
  EADDRNOTAVAIL: "is not an address of this machine",
  EACCES: "may not be listened on by this user",
  ENOTFOUND: "has a host that cannot be resolved",
};

/** Does `listen`; a refusal of the address becomes a `ListenFault` that names `variable`. */
export const listenFor = async <Listener>(variable: string, listen: () => Promise<Listener>): Promise<Listener> => {
  try {
    return await listen();
  } catch (cause) {
    const fault = words[errorCode(cause) ?? ""];
    throw fault === undefined ? cause : new ListenFault(`${variable}: the address ${fault}`, { cause });
  }
};
