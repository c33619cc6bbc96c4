import { isGenerated, isTest, type SourceFile } from "./imports.ts";

/**
 * Returns every exported name that two files declare: the same word for two things, or one thing written twice. A type and a value of one
 * file may share a name. Tests and generated files may use any.
 */
export const ownerFaults = (sources: readonly Pick<SourceFile, "path" | "exports">[]): string[] => {
  const owners = new Map<string, string[]>();
  for (const { path, exports } of sources)
    if (!isTest(path) && !isGenerated(path))
      for (const name of exports) owners.set(name, [...(owners.get(name) ?? []), path]);
  return [...owners].flatMap(([name, paths]) =>
    paths.length > 1 ? [`${name}: exported by ${paths.join(" and ")}`] : [],
  );
};
