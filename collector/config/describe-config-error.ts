import type { ConfigTextError } from "../../proto/collector-config/tree.ts";

/** One line for people: where in the file, which key, what is expected. */
export const describeConfigError = ({ path, line, column, message }: ConfigTextError): string =>
  `${line}:${column} ${path === "" ? "" : `${path} `}${message}`;
