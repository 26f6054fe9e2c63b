import type { Node } from "@/api/types";

export interface Placed {
  node: Node;
  column: number;
  row: number;
}

/** Each node in the column after its last dependency; rows keep the order of the nodes. */
export function layout(nodes: readonly Node[]): { placed: Placed[]; columns: number; rows: number } {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const depths = new Map<string, number>();
  const depthOf = (node: Node, seen: ReadonlySet<string> = new Set()): number => {
    const known = depths.get(node.name);
    if (known !== undefined) return known;
    const before = node.dependsOn.flatMap((name) => {
      const other = byName.get(name);
      return other && !seen.has(name) ? [depthOf(other, new Set([...seen, node.name]))] : [];
    });
    const depth = before.length ? Math.max(...before) + 1 : 0;
    depths.set(node.name, depth);
    return depth;
  };
  const counts: number[] = [];
  const placed = nodes.map((node) => {
    const column = depthOf(node);
    const row = counts[column] ?? 0;
    counts[column] = row + 1;
    return { node, column, row };
  });
  return { placed, columns: counts.length, rows: Math.max(0, ...counts) };
}
