import { ActionFailure, exitCodes } from "../terminal/exit-codes.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { readTextFile } from "../terminal/token-file.ts";
import { exchangeWorkloadToken, type Token } from "./token-endpoint.ts";

/** Signs a job in with the OpenID Connect token that its platform wrote to a file. Throws when core does not accept it. */
export const signInWorkload = async (
  terminal: Terminal,
  url: string,
  file: string,
): Promise<Token> => {
  const token = await exchangeWorkloadToken(terminal, url, readTextFile(file));
  if ("error" in token)
    throw new ActionFailure(exitCodes.notSignedIn, token.description || token.error);
  return token.value;
};
