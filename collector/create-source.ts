import type { SourceConfig } from "../proto/collector-config/parse.ts";
import { createFileSource, type FileSourceDependencies } from "./sources/file/file-source.ts";
import type { Source } from "./sources/source.ts";

/** The source that a config entry asks for. */
export const createSource = (config: SourceConfig, dependencies: FileSourceDependencies): Source => {
  if (config.type === "file") return createFileSource(config, dependencies);
  throw new Error(`${config.type} sources are not supported by this version`);
};
