import { keepPreviousData, useInfiniteQuery, type QueryKey } from "@tanstack/react-query";
import { raw } from "@/api/raw";

export interface Listed<T> {
  items: T[];
  nextCursor: string | null;
}

export type Filter = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** The query of an address, without the fields that are empty. */
export function search(filter: Filter): string {
  const given = Object.entries(filter).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}

/** A list that is read page by page. The rows of the last filter stay until the new ones have come. */
export function usePaged<T>(key: QueryKey, path: string, filter: Filter = {}, { isEnabled = true, everyMs }: { isEnabled?: boolean; everyMs?: number | ((items: T[]) => number | undefined) } = {}) {
  const found = useInfiniteQuery({
    queryKey: [...key, filter],
    enabled: isEnabled,
    initialPageParam: "",
    queryFn: ({ pageParam }) => raw<Listed<T>>("GET", `${path}${search({ limit: 20, ...filter, cursor: pageParam })}`),
    getNextPageParam: (last) => last.nextCursor ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval: typeof everyMs === "function" ? ({ state }) => everyMs(state.data?.pages.flatMap((page) => page.items) ?? []) : everyMs,
  });
  return {
    items: found.data?.pages.flatMap((page) => page.items) ?? [],
    error: found.error,
    isPending: found.isPending && isEnabled,
    isFetching: found.isFetching,
    refetch: () => void found.refetch(),
    more: found.hasNextPage ? () => void found.fetchNextPage() : undefined,
    isMoreLoading: found.isFetchingNextPage,
  };
}

/** Saves a text as a file. */
export function saveText(text: string, name: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
