# SPDX-License-Identifier: MIT
#
# cmake -DIN=FILE -DOUT=HEADER -DNAME=NAME -P embed.cmake
# writes a header with the bytes of FILE as the array NAME.
file(READ "${IN}" bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE "${OUT}" "static const unsigned char ${NAME}[] = {${bytes}};\n")
