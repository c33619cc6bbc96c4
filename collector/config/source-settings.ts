import { dirname } from "node:path";
import { identityDirectoryOf } from "../identity/identity-directory.ts";
import type { SourceSettings } from "../sources/source.ts";
import { isInsideRoots } from "./desired-rules.ts";
import type { UsableConfig } from "./load-config.ts";

/** Returns the collector's own files and directories, from which no source may read. */
export const ownPaths = ({ path, config }: Pick<UsableConfig, "path" | "config">): string[] => {
  const { certFile, keyFile } = config.forwarder.mtls;
  const identity = identityDirectoryOf(config) ?? [];
  const directories = [path, certFile, keyFile].map(dirname);
  return [
    ...new Set([path, certFile, keyFile, ...directories, ...[identity].flat(), config.buffer.dir]),
  ];
};

/**
 * Returns what the sources of a loaded config run with. Where core may assign configs, a source whose patterns are all inside
 * `file_roots` reads only there, also through links: it may come from core. Any other source can only be this host's own.
 */
export const sourceSettings = (loaded: Pick<UsableConfig, "path" | "config">): SourceSettings[] => {
  const { sources, management } = loaded.config;
  const { applyDesiredConfig, fileRoots } = management;
  const neverRead = ownPaths(loaded);
  return sources.map((source) => {
    if (source.type !== "file") return source;
    const isConfined = applyDesiredConfig && isInsideRoots(source.include, fileRoots);
    return { ...source, rules: { neverRead, ...(isConfined ? { roots: fileRoots } : {}) } };
  });
};
