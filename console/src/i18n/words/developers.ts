import type { Area } from "./area";

export const developers = {} as const satisfies Area;
